"""Where ``torch.set_default_device`` says anything else than the CPU, only what users make themselves is there.

Tensors of the device "meta" hold no values: whatever is made there by mistake is found out.
"""

from __future__ import annotations

import torch

from gnpool import Batches, Setting, crystallize, fit_many, read
from gnpool.models import GraphNet
from gnpool.tasks import get_task

TASK = get_task("harmonic")


def make_model() -> torch.nn.Module:
    with torch.device("cpu"):
        return GraphNet(1, hidden=4)


def test_training_and_reading_do_not_depend_on_it() -> None:
    train, validation = (TASK.dataset(split, count=9, sizes=(5, 8)) for split in ("train", "val"))

    def learn() -> tuple[torch.Tensor, torch.Tensor, str, str]:
        settings = [Setting(lr=1e-2, weight_decay=1e-3), Setting(lr=1e-2, optimizer="adam")]
        fit = fit_many(make_model, train, TASK.loss, settings, seeds=2, epochs=2, validation=validation, batch_size=4)
        held = Batches(validation, 4, seed=None, sorted_edges=True)
        errors = fit.evaluate(held, {"error": TASK.metric})["error"]
        model = fit.model(fit.runs[0])
        found = crystallize(model, train, validation, loss=TASK.loss, epochs=1, batch_size=4)
        return fit.curve("loss"), errors, str(read(model, next(iter(held)))), str(found)

    expected = learn()
    with torch.device("meta"):
        got = learn()
    for one, other in zip(expected[:2], got[:2], strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=0)
    assert got[2:] == expected[2:]
