"""Studies that failed on their own: recorded beside the results, and reported once all others are done."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnpool.store import Store

FAILURES = "failures.json"  # failures of the last run


@dataclass(frozen=True)
class Failure:
    """A study that failed."""

    study: str
    key: dict[str, Any]
    reason: str
    traceback: str

    @classmethod
    def of(cls, study: str, key: dict[str, Any], error: Exception) -> Failure:
        """A failure from the exception that the study raised."""
        lines = (str(error) or type(error).__name__).splitlines()
        return cls(study, key, lines[0], "".join(traceback.format_exception(error)))


class FailedStudiesError(RuntimeError):
    """Some studies failed on their own; all others are done and stored."""

    def __init__(self, message: str, failures: Sequence[Failure], studies: int) -> None:
        super().__init__(message)
        self.failures, self.studies = list(failures), studies


def clear_failures(store: Store) -> None:
    """Remove the failures of an earlier run."""
    (store.root / FAILURES).unlink(missing_ok=True)


def raise_failures(store: Store, failures: Sequence[Failure], studies: int) -> None:
    """Record the failures, if any, and raise an error that counts them; ``studies`` is the number of all studies."""
    if not failures:
        return
    path = store.publish(FAILURES, json.dumps([asdict(failure) for failure in failures], indent=1))
    first = failures[0]
    raise FailedStudiesError(
        f"{len(failures)} of {studies} studies failed, the others are done and stored; the first was {first.study} "
        f"({first.reason}); see {path} for all reasons, and run the same command to try them again",
        failures,
        studies,
    )
