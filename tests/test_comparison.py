"""The contenders of docs/comparison.md compute what they claim, and its table is that of the stored runs."""

from __future__ import annotations

import torch

from benchmarks import comparison
from tools.check_docs import ROOT


def test_the_table_of_the_page_is_that_of_the_stored_runs() -> None:
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert comparison.table(comparison.read()) in page


def test_every_contender_is_stored_with_every_target_and_seed() -> None:
    rows = comparison.read()
    names = [*comparison.poolings(torch.ones(15)), "GNP, crystallized"]
    for target in comparison.TARGETS:
        for name in names:
            chosen = [row for row in rows if (row["target"], row["pooling"], row["chosen"]) == (target, name, "1")]
            assert len(chosen) == (1 if "crystal" in name else len(comparison.SEEDS)), (target, name)


def test_laf_holds_sum_mean_and_count() -> None:
    x, index = torch.rand(7, 1), torch.tensor([0, 0, 1, 1, 1, 1, 1])
    laf = comparison.LAF(1, units=3)
    with torch.no_grad():
        laf.powers.zero_()  # every term is 1
        laf.powers[0, 0] = 1.0
        laf.powers[0, 1] = torch.tensor([1.0, 1.0, 0.0])  # sum, sum, count
        laf.powers[2, 0] = torch.tensor([0.0, 1.0, 0.0])  # over 1, count, 1
        laf.weights[:] = torch.tensor([1.0, 0.0, 1.0, 0.0]).unsqueeze(1)
    parts = (x[:2], x[2:])
    expected = torch.stack([torch.stack([part.sum(), part.mean(), torch.tensor(float(len(part)))]) for part in parts])
    torch.testing.assert_close(laf(x, index, 2), expected)


def test_genagg_with_the_identity_is_the_mean_and_the_sum() -> None:
    x, index = torch.rand(7, 2), torch.tensor([0, 0, 1, 1, 1, 1, 1])
    genagg = comparison.GenAgg()
    genagg.f, genagg.inverse = torch.nn.Identity(), torch.nn.Identity()
    for alpha, reduce in ((0.0, torch.mean), (1.0, torch.sum)):
        with torch.no_grad():
            genagg.alpha.fill_(alpha)
        pooled, own = genagg(x, index, 2)
        torch.testing.assert_close(pooled, torch.stack([reduce(x[:2], 0), reduce(x[2:], 0)]))
        torch.testing.assert_close(own, torch.zeros(2))


def test_targets_and_features() -> None:
    for name, expected in {"max": 4.0, "sum": 7.0, "mean": 7 / 3, "min": 1.0, "harmonic": 4 / 7, "1/n": 1 / 3}.items():
        assert abs(float(comparison.TARGETS[name](torch.tensor([1.0, 2.0, 4.0]))) - expected) < 1e-6
    one = comparison.draw("sum", 1, (5, 6), 0)[0]
    assert one.x.shape == (5, 2)
    assert torch.equal(one.x[:, 1], torch.ones(5))
    torch.testing.assert_close(one.y, one.x[:, 0].sum().view(1).double())


def test_numbers_are_short() -> None:
    assert [comparison.number(v) for v in (0.01, 9.94, 9.96, 999.4, 1e5)] == ["0.0", "9.9", "10", "999", ">999"]
