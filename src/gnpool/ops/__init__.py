"""The pooling operator: definition, kernels and public functions."""

from gnpool.ops.functional import norm_pool, norm_pool_neighbors

__all__ = ["norm_pool", "norm_pool_neighbors"]
