"""What a slot of a network can hold: the poolings by name, and how they are computed."""
