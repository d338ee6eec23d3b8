"""An evaluation of norm pooling that shares no code with gnpool: numpy's extended precision, one segment at a time."""

import numpy as np
import torch

WIDE = np.longdouble


def norm_pool_oracle(x, index, p, q, dim_size, eps=1e-6):
    """y (S, D) and the gradients of y.sum() in x (N, D), p (D,) and q (D,), all float64."""
    x, index = np.asarray(x.cpu(), dtype=WIDE), np.asarray(index.cpu())
    N, D = x.shape
    y, gx = np.zeros((dim_size, D), WIDE), np.zeros((N, D), WIDE)
    gp, gq = np.zeros(D, WIDE), np.zeros(D, WIDE)
    for s in range(dim_size):
        rows = np.flatnonzero(index == s)
        n = len(rows)
        for d in range(D):
            v = np.abs(x[rows, d])
            kept = np.ones(n, bool) if p[d] > 0 else v > WIDE(eps)
            u = v[kept] + WIDE(eps)
            if not len(u):
                continue
            e, size = WIDE(p[d]), WIDE(n) ** -WIDE(q[d])
            if np.isinf(p[d]):
                m = u.max() if p[d] > 0 else u.min()
                y[s, d] = m * size
                slope = (u == m) / WIDE((u == m).sum())
            else:
                m = u.max() if p[d] > 0 else u.min()
                total = ((u / m) ** e).sum()
                norm = m * total ** (1 / e)
                y[s, d] = norm * size
                slope = (u / m) ** (e - 1) * total ** (1 / e - 1)
                mean_log = ((u / m) ** e * np.log(u / m)).sum() / total
                gp[d] += y[s, d] / e * (mean_log - np.log(total) / e)
            gx[rows[kept], d] = slope * size * np.sign(x[rows[kept], d])
            gq[d] -= y[s, d] * np.log(WIDE(n))
    return tuple(torch.tensor(np.asarray(a, dtype=np.float64)) for a in (y, gx, gp, gq))
