"""The networks: plain modules with slots for poolings."""
