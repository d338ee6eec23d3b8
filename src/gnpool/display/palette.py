"""The colours of pictures; the page has the same hues in its style sheet, lighter or darker by its theme."""

from __future__ import annotations

# Okabe and Ito's palette, which the colour-blind can tell apart, and a marker for each as well. GNP is the first, and
# GNP* the second.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P")
