"""The page of the arena: its tables, the choice of the quick study, and that both are in step with the raw outcomes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gnpool.tasks.arena import published
from studies import arena_motif, arena_page


def test_the_page_is_in_step() -> None:
    page = arena_page.PAGE.read_text(encoding="utf-8")
    assert arena_page.filled(page) == page


def test_a_page_without_a_block() -> None:
    with pytest.raises(ValueError, match="has no block 'parts'"):
        arena_page.filled("# The arena")


def test_published_rows() -> None:
    lines = arena_page.published_table(published("good_motif_size")).splitlines()
    assert lines[0] == "|  | covariate | concept |"
    assert lines[2] == "| ERM | 53.46 ± 4.08 | **70.83 ± 0.79** |"
    assert lines[10] == "| GSAT | 60.76 ± 5.94 | 59.00 ± 3.42 |"
    assert lines[13] == "| LECI | **71.00°** |  |"
    lines = arena_page.published_table(published("tu_size")).splitlines()
    assert lines[-1].startswith("| Oracle (IID) | 0.32 ± 0.05° | 0.37 ± 0.06° |")  # does not compete
    lines = arena_page.published_table(published("colors")).splitlines()
    assert lines[2] == "| global readout | 15 ± 7 | **100** | 62.0 | 14.8 |"  # with the three others that have 100
    assert arena_page.notes_of(published("salsa_bfs")) == (
        "RecGNN (ER 1600), RecGNN (Delaunay 1600): confirmed second-hand."
    )
    assert arena_page.published_block("salsa_dijkstra").endswith("No published number was established.")
    assert "No method can do better than 93.33." in arena_page.published_block("good_motif_size")


def run(seed: int, validation: dict[str, float], test: float) -> dict[str, Any]:
    chosen = {rule: {"validation": value, "test": test, "id_test": test + 1} for rule, value in validation.items()}
    return {"seed": seed, "chosen": chosen}


def test_choices() -> None:
    """Every choice is among four runs: of two seeds at two rates, or of one seed from two starts at two rates."""
    fixed = [
        run(seed, {"shifted": 10.0 * seed + k, "inside": -seed}, 100 * seed + k) for seed in range(4) for k in (0, 1)
    ]
    assert arena_motif.accuracies({"runs": fixed}, "shifted") == [101, 301]
    assert arena_motif.accuracies({"runs": fixed}, "inside", "id_test") == [1, 201]
    gnp = [run(seed, {"shifted": float(k % 3)}, 10 * seed + k) for k in range(4) for seed in range(2)]
    gnp[0]["chosen"] = {}  # it diverged
    assert arena_motif.accuracies({"runs": gnp}, "shifted") == [2, 12]


def test_as_many_runs_for_every_pair() -> None:
    for _, _, starts in arena_motif.PAIRS.values():
        assert len(arena_motif.settings(starts)) * (2 // len(starts)) == 4


def test_criteria_of_a_rule_see_its_graphs_alone() -> None:
    batch = SimpleNamespace(
        y=torch.tensor([0, 0, 1, 1]), shifted=torch.tensor([2.0, 2, 0, 0]), inside=torch.tensor([0.0, 0, 2, 2])
    )
    scores = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    found = {rule: one(scores, batch).mean().item() for rule, one in arena_motif.criteria().items()}
    assert found == {"shifted": 0.5, "inside": 1.0}


def test_the_study_runs() -> None:
    """Two epochs: accuracies are shares of 20 graphs."""
    found = arena_motif.study("sum/max", seeds=1, train=64, held=20, epochs=2)
    assert len(found["runs"]) == 4
    chosen = [run["chosen"][rule] for run in found["runs"] for rule in arena_motif.RULES]
    assert {one["epoch"] for one in chosen} <= {0, 1}
    assert all((one[part] / 5).is_integer() and 0 <= one[part] <= 100 for one in chosen for part in ("test", "id_test"))
