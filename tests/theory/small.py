"""A small run of everything, shared by the tests."""

from __future__ import annotations

import functools

import pytest

from gnpool.theory import TheoryStudy, run_study, study, widths

STEPS: list[str] = []


@functools.cache
def small_study() -> TheoryStudy:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "TEST_GRAPHS", 9)
        patch.setattr(study, "FEATURE_GRAPHS", 4)
        patch.setattr(study, "FEATURE_SAMPLES", 32)
        patch.setattr(widths, "SEEDS", 1)
        patch.setattr(widths, "ANGLES", 500)
        return run_study(graphs=18, widths=(4, 8), seed=3, progress=STEPS.append)
