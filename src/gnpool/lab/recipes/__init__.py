"""Tables whose cells are recipes and exams: what is trained on generated data, and what it is tested on."""

from gnpool.lab.recipes.recipe import EVALUATION_BATCH, NETWORKS, Exam, Recipe
from gnpool.lab.recipes.table import Cell, Table

__all__ = ["EVALUATION_BATCH", "NETWORKS", "Cell", "Exam", "Recipe", "Table"]
