"""Runs jobs side by side, in threads, processes or on a cluster, and reports on their progress."""
