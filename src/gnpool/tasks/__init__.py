"""Synthetic problems whose test graphs and sets are larger than those of the training."""

from __future__ import annotations

from gnpool.tasks.classification import CrossEntropy, accuracy, balanced_accuracy, mcc, roc_auc
from gnpool.tasks.graph_tasks import GraphTask
from gnpool.tasks.graphs import Graph
from gnpool.tasks.losses import mae, mape, mean_nll, median_ape, squared_error, variance_nll
from gnpool.tasks.node_tasks import NodeTask, Rooted
from gnpool.tasks.set_tasks import SetTask
from gnpool.tasks.streams import Stream
from gnpool.tasks.structures import STRUCTURES, Structure, get_structure
from gnpool.tasks.table import distribution_table
from gnpool.tasks.task import SPLITS, Request, Task, get_task, register, register_task, task_names

__all__ = [
    "SPLITS",
    "STRUCTURES",
    "CrossEntropy",
    "Graph",
    "GraphTask",
    "NodeTask",
    "Request",
    "Rooted",
    "SetTask",
    "Stream",
    "Structure",
    "Task",
    "accuracy",
    "balanced_accuracy",
    "distribution_table",
    "get_structure",
    "get_task",
    "mae",
    "mape",
    "mcc",
    "mean_nll",
    "median_ape",
    "register",
    "register_task",
    "roc_auc",
    "squared_error",
    "task_names",
    "variance_nll",
]
