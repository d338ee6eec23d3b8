"""Moves new units of results/paper into a pack, without weights that nothing in the repository reads.

python -m tools.pack_results          # after a run has added units

All curves of trainings stay, including those of validation, on which selections rest. Weights stay for the networks
that commands in the documentation read: GNP on the paper's data of each task, chosen by the validation loss, and its
crystallized form. GNP on data seed 2 keeps its weights, too, because it is not crystallized yet. The weights of other
networks are in the history of results/paper/units.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gnpool.store import Store

STORE = Path(__file__).resolve().parents[1] / "results" / "paper"
WEIGHTS = ("loss/", "metric/")  # the weights that either criterion chose
KEPT = ("standard", "standard, data seed 2")
READ = ("gnp", "gnp, gin", "basic, gnp")  # models, without the star of crystallized ones


def drop(key: dict[str, Any], tensor: str) -> bool:
    """Whether a tensor of a unit is left out."""
    if key["table"] not in ("training", "crystal") or not tensor.startswith(WEIGHTS):
        return False
    read = key.get("data") in KEPT and str(key.get("model")).removesuffix("*") in READ
    return not (read and tensor.startswith("loss/"))


def main() -> None:
    """Pack, and print what was left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--store", type=Path, default=STORE)
    print(Store(parser.parse_args().store, create=False).pack(drop=drop) or "nothing to pack")


if __name__ == "__main__":
    main()
