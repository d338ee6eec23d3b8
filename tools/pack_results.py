"""Move new units of results/paper into a pack, less the weights that nothing in the repository reads.

python -m tools.pack_results          # after a run has added units

Of trainings stay all curves, validation's among them, on which selections rest. Weights stay of the networks that
commands of the documentation read: GNP on the data of each task as the paper has it, chosen by the validation loss, and
what they were crystallized to. The weights of other networks are in the history of results/paper/units.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gnpool.store import Store

STORE = Path(__file__).resolve().parents[1] / "results" / "paper"
WEIGHTS = ("loss/", "metric/")  # of what either criterion chose
READ = ("gnp", "gnp, gin", "basic, gnp")  # models, without the star of crystallized ones


def drop(key: dict[str, Any], tensor: str) -> bool:
    """Whether a tensor of a unit is left out."""
    if key["table"] not in ("training", "crystal") or not tensor.startswith(WEIGHTS):
        return False
    read = key.get("data") == "standard" and str(key.get("model")).removesuffix("*") in READ
    return not (read and tensor.startswith("loss/"))


def main() -> None:
    """Pack, and say what was left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--store", type=Path, default=STORE)
    print(Store(parser.parse_args().store, create=False).pack(drop=drop) or "nothing to pack")


if __name__ == "__main__":
    main()
