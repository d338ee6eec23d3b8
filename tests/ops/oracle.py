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


def growth_pool_oracle(x, index, p, growth, dim_size, eps=1e-6, zeros="keep"):
    """As :func:`norm_pool_oracle`, of n^growth M_p: y and the gradients of y.sum() in x, p and growth."""
    x, index = np.asarray(x.cpu(), dtype=WIDE), np.asarray(index.cpu())
    N, D = x.shape
    y, gx = np.zeros((dim_size, D), WIDE), np.zeros((N, D), WIDE)
    gp, gg = np.zeros(D, WIDE), np.zeros(D, WIDE)
    for s in range(dim_size):
        rows = np.flatnonzero(index == s)
        n = len(rows)
        for d in range(D):
            v = np.abs(x[rows, d])
            kept = v > WIDE(eps) if zeros == "remove" else np.ones(n, bool)
            u = v[kept] + WIDE(eps)
            if not len(u):
                continue
            mean, slope, by_p = _power_mean(u, p[d])
            size = WIDE(n) ** WIDE(growth[d])
            y[s, d] = mean * size
            gx[rows[kept], d] = slope * size * np.sign(x[rows[kept], d])
            gp[d] += by_p * size
            gg[d] += y[s, d] * np.log(WIDE(n))
    return tuple(torch.tensor(np.asarray(a, dtype=np.float64)) for a in (y, gx, gp, gg))


def _power_mean(u, p):
    """The power mean of u > 0, its gradient in u, and its derivative in p."""
    k, e = len(u), WIDE(p)
    if np.isinf(p):
        mean = u.max() if p > 0 else u.min()
        return mean, (u == mean) / WIDE((u == mean).sum()), WIDE(0)
    if abs(p) >= 0.1:
        unit = u.max() if p > 0 else u.min()
        log = np.log(u / unit)
        power = np.exp(e * log)
        level = np.log(power.mean()) / e
        by_p = ((power * log).sum() / power.sum() - level) / e
    else:  # centred on the geometric mean, so that what cancels is small
        unit = np.exp(np.log(u).mean())
        log = np.log(u / unit)
        rise = np.expm1(e * log)
        if p == 0:
            level, by_p = WIDE(0), (log**2).mean() / 2
        else:
            rest = log.sum() / (1 + rise).sum()  # 0 to rounding
            level = np.log1p(rise.mean()) / e
            by_p = ((log * rise).sum() / (1 + rise).sum() + rest - level) / e
    mean = unit * np.exp(level)
    return mean, np.exp(e * (log - level)) * mean / u / k, mean * by_p
