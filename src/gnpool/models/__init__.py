"""Networks with a slot for a pooling, as plain modules of PyTorch Geometric."""

from gnpool.insight.laws.network import LawNet
from gnpool.insight.laws.several import LawsNet
from gnpool.models.networks.deep_net import DeepNet
from gnpool.models.networks.graph_net import GraphNet
from gnpool.models.networks.monstor import MONSTOR
from gnpool.models.networks.node_net import NodeNet
from gnpool.models.networks.recurrent_net import RecurrentNet
from gnpool.models.networks.sagpool import SAGPoolNet
from gnpool.models.networks.set_net import SetNet
from gnpool.models.networks.set_transformer import AttentionBlock, SetTransformer
from gnpool.models.poolings.gnp import StudyGNPAggregation
from gnpool.models.poolings.named import make_pooling, register_pooling
from gnpool.models.poolings.pna import PNAAggregation
from gnpool.models.poolings.set2set import Set2Set
from gnpool.models.poolings.slot import pooled_channels
from gnpool.models.poolings.sort import SortPooling
from gnpool.models.saved import SavedModel, SavedModelError, load_model, load_saved, save_model
from gnpool.models.stacked.asap import ASAPClassifier
from gnpool.models.stacked.sag import SAGClassifier

__all__ = [
    "MONSTOR",
    "ASAPClassifier",
    "AttentionBlock",
    "DeepNet",
    "GraphNet",
    "LawNet",
    "LawsNet",
    "NodeNet",
    "PNAAggregation",
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
