"""Networks with a slot for a pooling, as plain modules of PyTorch Geometric."""

from gnpool.insight.laws import LawNet, LawsNet
from gnpool.models.asap_classifier import ASAPClassifier
from gnpool.models.deep_net import DeepNet
from gnpool.models.gnp import StudyGNPAggregation
from gnpool.models.graph_net import GraphNet
from gnpool.models.monstor import MONSTOR
from gnpool.models.node_net import NodeNet
from gnpool.models.pooling import make_pooling, register_pooling
from gnpool.models.recurrent_net import RecurrentNet
from gnpool.models.sag_classifier import SAGClassifier
from gnpool.models.sagpool import SAGPoolNet
from gnpool.models.saved import SavedModel, SavedModelError, load_model, load_saved, save_model
from gnpool.models.set2set import Set2Set
from gnpool.models.set_net import SetNet
from gnpool.models.set_transformer import AttentionBlock, SetTransformer
from gnpool.models.slot import pooled_channels
from gnpool.models.sort import SortPooling

__all__ = [
    "MONSTOR",
    "ASAPClassifier",
    "AttentionBlock",
    "DeepNet",
    "GraphNet",
    "LawNet",
    "LawsNet",
    "NodeNet",
    "RecurrentNet",
    "SAGClassifier",
    "SAGPoolNet",
    "SavedModel",
    "SavedModelError",
    "Set2Set",
    "SetNet",
    "SetTransformer",
    "SortPooling",
    "StudyGNPAggregation",
    "load_model",
    "load_saved",
    "make_pooling",
    "pooled_channels",
    "register_pooling",
    "save_model",
]
