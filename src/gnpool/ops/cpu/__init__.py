"""The Numba backend, and the parts of it that other rooms use: threads and compiled building blocks."""
