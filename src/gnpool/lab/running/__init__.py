"""How jobs are run: side by side, in threads, processes or on a cluster, and what is told of them."""
