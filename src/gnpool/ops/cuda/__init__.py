"""The Triton backend, and its launcher for the kernels of other rooms."""
