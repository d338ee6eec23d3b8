"""Fits users' own data: splits by size, looks for a law, trains GNP beside fixed poolings, and names the answer."""

from gnpool.fit.answer import Answer, answer
from gnpool.fit.estimators import GNPClassifier, GNPRegressor
from gnpool.fit.export import write_export
from gnpool.fit.onnx import onnx_bytes
from gnpool.fit.pipeline import run_study
from gnpool.fit.predict import Predictor, load_predictor
from gnpool.fit.preprocess import Preprocessing
from gnpool.fit.problem import Problem
from gnpool.fit.split import Split, histogram, make_split
from gnpool.fit.study import Entry, Options, Study

__all__ = [
    "Answer",
    "Entry",
    "GNPClassifier",
    "GNPRegressor",
    "Options",
    "Predictor",
    "Preprocessing",
    "Problem",
    "Split",
    "Study",
    "answer",
    "histogram",
    "load_predictor",
    "make_split",
    "onnx_bytes",
    "run_study",
    "write_export",
]
