"""The tangent kernel of the method, checked by machine."""

from gnpool.theory.checks import Check, gradient_formula, run_checks
from gnpool.theory.graphs import NeighborSums, join, neighbor_sums
from gnpool.theory.kernel import (
    HEADS,
    Directions,
    FeatureMap,
    angular_directions,
    feature_map,
    linear_head_kernel,
    mlp_head_kernel,
    random_directions,
    scalar_directions,
)
from gnpool.theory.networks import draw_parameters, empirical_kernel, network, train_network
from gnpool.theory.readouts import NormReadout, PlainReadout, Readout
from gnpool.theory.regression import kernel_regression, mean_relative_error
from gnpool.theory.study import RegressionRow, TheoryStudy, run_study, study_steps
from gnpool.theory.targets import TARGETS, PlaneMap, Target, plane_map, target_labels
from gnpool.theory.widths import CASES, Case, WidthRow, compare_widths, linearization_gap

__all__ = [
    "CASES",
    "HEADS",
    "TARGETS",
    "Case",
    "Check",
    "Directions",
    "FeatureMap",
    "NeighborSums",
    "NormReadout",
    "PlainReadout",
    "PlaneMap",
    "Readout",
    "RegressionRow",
    "Target",
    "TheoryStudy",
    "WidthRow",
    "angular_directions",
    "compare_widths",
    "draw_parameters",
    "empirical_kernel",
    "feature_map",
    "gradient_formula",
    "join",
    "kernel_regression",
    "linear_head_kernel",
    "linearization_gap",
    "mean_relative_error",
    "mlp_head_kernel",
    "neighbor_sums",
    "network",
    "plane_map",
    "random_directions",
    "run_checks",
    "run_study",
    "scalar_directions",
    "study_steps",
    "target_labels",
    "train_network",
]
