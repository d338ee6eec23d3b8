"""Studies that failed for reasons of their own: recorded beside the results, and reported once all others are done."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnpool.store import Store

FAILURES = "failures.json"  # of the last run


@dataclass(frozen=True)
class Failure:
    """A study that failed."""

    study: str
    key: dict[str, Any]
    reason: str
    traceback: str

    @classmethod
    def of(cls, study: str, key: dict[str, Any], error: Exception) -> Failure:
        """From what it raised."""
        lines = (str(error) or type(error).__name__).splitlines()
        return cls(study, key, lines[0], "".join(traceback.format_exception(error)))


class FailedStudiesError(RuntimeError):
    """Some studies failed for reasons of their own; everything else is done and stored."""

    def __init__(self, message: str, failures: Sequence[Failure], studies: int) -> None:
        super().__init__(message)
        self.failures, self.studies = list(failures), studies


def clear_failures(store: Store) -> None:
    """Forget those of an earlier run."""
    (store.root / FAILURES).unlink(missing_ok=True)


def raise_failures(store: Store, failures: Sequence[Failure], studies: int) -> None:
    """Record what failed of so many studies, if anything, and raise an error that says so."""
    if not failures:
        return
    path = store.publish(FAILURES, json.dumps([asdict(failure) for failure in failures], indent=1))
    first = failures[0]
    raise FailedStudiesError(
        f"{len(failures)} of {studies} studies failed, the others are done and stored; the first was {first.study} "
        f"({first.reason}); {path} has all reasons, and the same command tries them again",
        failures,
        studies,
    )
