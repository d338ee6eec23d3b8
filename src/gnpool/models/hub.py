r"""A saved model as the Hugging Face hub keeps models: ``config.json``, ``model.safetensors`` and a card.

Nothing is sent or fetched here: any tool that moves folders to and from the hub does that. What comes back from there
is loaded by :func:`gnpool.load_model` like any saved model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnpool.models.saved import CONFIG, LIBRARY, WEIGHTS, load_saved, model_files

CARD = "README.md"
HUB_FILES = (CONFIG, WEIGHTS, CARD)
CODE = """from gnpool import load_model

model = load_model("folder")  # with config.json and model.safetensors"""


def hub_files(folder: str | Path) -> dict[str, bytes]:
    r"""The files of a saved model under the names that the hub expects.

    ``config.json`` is ``model.json`` with the entries ``model_type`` and ``architectures``; the weights are the same.

    Args:
        folder (str or Path): What :func:`gnpool.save_model` wrote.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from gnpool import load_model, save_model
        >>> from gnpool.models import SetNet
        >>> from gnpool.models.hub import hub_files
        >>> arguments = {"in_channels": 2, "pool": "mean", "hidden": 8}
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = save_model(f"{place}/model", SetNet(**arguments), {"class": "SetNet", "arguments": arguments})
        ...     files = hub_files(folder)
        ...     for name, data in files.items():
        ...         _ = Path(place, name).write_bytes(data)
        ...     print(*files, load_model(place))
        config.json model.safetensors README.md SetNet(2, pool=MeanAggregation(), depth=1, hidden=8, activation='relu')
    """
    saved = load_saved(folder)
    plain, weights = model_files(saved.model, saved.spec, saved.extra).values()
    config = {"model_type": LIBRARY, "architectures": [saved.spec["class"]], **json.loads(plain)}
    return {
        CONFIG: (json.dumps(config, indent=2, allow_nan=False) + "\n").encode(),
        WEIGHTS: weights,
        CARD: _card(saved.spec["class"], saved.extra).encode(),
    }


def _card(network: str, extra: Mapping[str, Any]) -> str:
    """A card: what the hub needs to know, and how to load the model."""
    head = f"---\nlibrary_name: {LIBRARY}\ntags:\n- graph-machine-learning\n- pytorch-geometric\n---\n"
    title = f"# A {network} of gnpool"
    made = extra.get("made_by")
    use = "It was made by `gnpool fit`. `gnpool predict FOLDER DATA` uses it on tables." if made else ""
    parts = [title, use, f"```python\n{CODE}\n```"]
    return head + "\n" + "\n\n".join(filter(None, parts)) + "\n"
