"""The poolings of a network's slots: their names, and how they are computed."""
