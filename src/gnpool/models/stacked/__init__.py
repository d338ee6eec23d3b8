"""Many networks at once, each with its own graphs, and the classifiers that are built in this way."""
