"""Many networks at once, each with different graphs, and the classifiers that are built so."""
