r"""The forms of the pooling, as a number that every kernel takes.

The norm form is :math:`n^{-q} (\sum u^p)^{1/p}`. The growth form is :math:`n^{-q} M_p(u)` with the power mean
:math:`M_p(u) = (\frac{1}{k} \sum u^p)^{1/p}` of the k rows that take part, and p = 0 is the geometric mean. Kernels
know one exponent of the size, q; the growth is its negative.
"""

from __future__ import annotations

NORM = 0
"""The norm form: all rows take part for p > 0, those above eps for p < 0."""

KEEP = 1
"""The growth form with ``zeros="keep"``: all rows take part, and k = n."""

REMOVE = 2
"""The growth form with ``zeros="remove"``: rows above eps take part, whatever p is."""

ZEROS = {"keep": KEEP, "remove": REMOVE}
