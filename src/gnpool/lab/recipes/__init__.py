"""Tables made of recipes and exams: recipes train on generated data, and exams test the models."""

from gnpool.lab.recipes.recipe import EVALUATION_BATCH, NETWORKS, Exam, Recipe
from gnpool.lab.recipes.table import Cell, Table

__all__ = ["EVALUATION_BATCH", "NETWORKS", "Cell", "Exam", "Recipe", "Table"]
