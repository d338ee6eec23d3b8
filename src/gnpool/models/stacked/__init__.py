"""Many networks at once where each has graphs of its own, and the classifiers that are built so."""
