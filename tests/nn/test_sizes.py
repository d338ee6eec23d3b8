"""``set_sizes`` measures how many elements each GNP pools."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GINConv, SAGEConv

from gnpool import GNPAggregation, GNPConv
from gnpool.nn import set_sizes

STAR = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])  # node 4 is alone
BATCH = torch.tensor([0, 0, 0, 0, 1])


class Net(torch.nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        nn = torch.nn.Linear(2, 2)
        self.conv = GNPConv(nn, GNPAggregation(2)) if fused else GINConv(nn, aggr=GNPAggregation(2))
        self.readout = GNPAggregation(2)

    def forward(self, x, edge_index, batch=None, ptr=None):
        return self.readout(self.conv(self.norm(x), edge_index), batch, ptr=ptr)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "PyG"])
@pytest.mark.parametrize("by", ["index", "ptr"])
def test_the_mean_of_segments_that_are_not_empty(fused, by):
    model = Net(fused).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    where = {"batch": BATCH} if by == "index" else {"ptr": torch.tensor([0, 4, 5])}
    assert set_sizes(model, torch.rand(5, 2), STAR, **where) == {"conv.aggr_module": 1.5, "readout": 2.5}
    assert (model.conv.aggr_module.size, model.readout.size) == (1.5, 2.5)
    assert model.training
    assert model.norm.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.readout._forward_pre_hooks


def test_a_set_is_one_segment():
    pool = GNPAggregation(2)
    assert set_sizes(pool, torch.rand(7, 2)) == {"": 7.0}


def test_the_true_sizes_of_samples_count():
    pool = GNPAggregation(2)
    given = {"sizes": torch.tensor([40, 20])}
    assert set_sizes(pool, torch.rand(4, 2), torch.tensor([0, 0, 1, 1]), **given) == {"": 30.0}


def test_the_mean_starts_as_it_did_and_the_sum_keeps_its_scale():
    torch.manual_seed(0)
    x, index = torch.rand(9, 4), torch.arange(9) // 3
    for start, factor in (("mean", 1.0), ("sum", 16 / 3)):
        pool = GNPAggregation(4, start=start)
        usual = pool(x, index)
        set_sizes(pool, x, index)
        torch.testing.assert_close(pool(x, index), factor * usual)


def test_layers_that_are_not_used_keep_their_size():
    model = torch.nn.ModuleDict({"used": GNPAggregation(2), "idle": GNPAggregation(2)})
    model.forward = lambda x: model["used"](x)
    assert set_sizes(model, torch.rand(5, 2)) == {"used": 5.0}
    assert model["idle"].size == 16.0


def test_errors():
    with pytest.raises(ValueError, match="SAGEConv has no GNPAggregation inside"):
        set_sizes(SAGEConv(2, 2), torch.rand(5, 2), STAR)
    model = Net(fused=False)
    with pytest.raises(ValueError, match="2 channels"):
        set_sizes(model.readout, torch.rand(5, 3))
    assert not model.readout._forward_pre_hooks
    assert model.readout.training
