"""Influence maximisation: cascades, seed selection, the learned estimator."""

from gnpool.influence.cascades import Cascades, simulate
from gnpool.influence.choose import choose_seeds
from gnpool.influence.estimate import ModelGains, MonteCarloGains, model_influence
from gnpool.influence.graph import CascadeGraph
from gnpool.influence.labels import Labels, draw_seeds, make_labels
from gnpool.influence.saved import SavedMonstor, load_monstor, save_monstor
from gnpool.influence.select import Selection, degree_seeds, influence_bound, lazy_greedy, random_seeds
from gnpool.influence.train import Part, TrainedMonstor, fit_monstor

__all__ = [
    "CascadeGraph",
    "Cascades",
    "Labels",
    "ModelGains",
    "MonteCarloGains",
    "Part",
    "SavedMonstor",
    "Selection",
    "TrainedMonstor",
    "choose_seeds",
    "degree_seeds",
    "draw_seeds",
    "fit_monstor",
    "influence_bound",
    "lazy_greedy",
    "load_monstor",
    "make_labels",
    "model_influence",
    "random_seeds",
    "save_monstor",
    "simulate",
]
