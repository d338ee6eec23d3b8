"""The search spaces of the paper, each with the setting that a reduced preset uses."""

from __future__ import annotations

from dataclasses import dataclass

from gnpool.training import Setting

CLIPS = [1e2, 1e4]


@dataclass(frozen=True)
class Grid:
    """Settings among which validation chooses; ``quick`` is the setting of presets that do not search."""

    settings: tuple[Setting, ...]
    quick: Setting


def _three_optimizers(lr: list[float], clip: list[float]) -> tuple[Setting, ...]:
    adam = [Setting.grid(optimizer="adam", betas=betas, lr=lr, clip=clip) for betas in ((0.9, 0.999), (0.5, 0.999))]
    return (*adam[0], *adam[1], *Setting.grid(optimizer="rmsprop", lr=lr, clip=clip))


def _gnp(lr: list[float], clip: list[float]) -> tuple[Setting, ...]:
    return tuple(Setting.grid(lr_p=[3e-2, 1e-2, 3e-3], lr=lr, clip=clip))


ADAM = Setting(lr=3e-3, clip=1e4, optimizer="adam")
GRIDS = {
    "graph_gnp": Grid(_gnp([3e-2, 1e-2, 3e-3, 1e-3], CLIPS), Setting(lr=5e-3, lr_p=3e-2, clip=1e4)),
    "graph_fixed": Grid(_three_optimizers([3e-2, 1e-2, 3e-3, 1e-3], CLIPS), ADAM),
    "graph_sagpool": Grid(
        _three_optimizers([1e-2, 3e-3, 1e-3, 3e-4], CLIPS), Setting(lr=1e-3, clip=1e4, optimizer="adam")
    ),
    "node_gnp": Grid(_gnp([1e-2, 3e-3, 1e-3], CLIPS), Setting(lr=1e-3, lr_p=3e-2, clip=1e4)),
    "node_fixed": Grid(_three_optimizers([3e-2, 1e-2, 3e-3, 1e-3], CLIPS), ADAM),
    "set_gnp": Grid(_gnp([3e-2, 1e-2, 3e-3], [1e4]), Setting(lr=3e-3, lr_p=3e-2, clip=1e4)),
    "set_fixed": Grid(_three_optimizers([3e-2, 1e-2, 3e-3, 1e-3], [1e4]), ADAM),
    "set_others": Grid(_three_optimizers([1e-2, 1e-3, 1e-4], [1e4]), Setting(lr=1e-3, clip=1e4, optimizer="adam")),
}
