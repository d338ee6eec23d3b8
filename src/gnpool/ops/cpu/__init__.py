"""The Numba backend, and what other rooms use of it: threads and compiled building blocks."""
