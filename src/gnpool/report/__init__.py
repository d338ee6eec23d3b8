"""Tables, figures and the page, from stored results alone."""

from gnpool.report.answer import PageAnswer, answer
from gnpool.report.grids import TextGrid, grids, number, pair_lines, run_so_far, verdict_counts
from gnpool.report.interval import bootstrap
from gnpool.report.markdown.tables import markdown
from gnpool.report.page.page import answer_of, page
from gnpool.report.reading import read_study
from gnpool.report.study import StoredStudy, Training
from gnpool.report.verdicts import Counts, by_kind
from gnpool.report.verdicts import count as count_verdicts

__all__ = [
    "Counts",
    "PageAnswer",
    "StoredStudy",
    "TextGrid",
    "Training",
    "answer",
    "answer_of",
    "bootstrap",
    "by_kind",
    "count_verdicts",
    "grids",
    "markdown",
    "number",
    "page",
    "pair_lines",
    "read_study",
    "run_so_far",
    "verdict_counts",
]
