"""The Triton backend, and its launcher for kernels of other rooms."""
