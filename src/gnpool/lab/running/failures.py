"""Studies that failed on their own: recorded beside the results, and reported once all others are done."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from gnpool.store import Store

FAILURES = "failures.json"  # failures of the last run


class FailedStudiesError(RuntimeError):
    """Some studies failed on their own; all others are done and stored."""

    def __init__(self, message: str, failures: Sequence[dict[str, Any]], studies: int) -> None:
        super().__init__(message)
        self.failures, self.studies = list(failures), studies


def failure(study: str, key: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    """A study that failed, as the file of failures has it."""
    lines = (str(error) or type(error).__name__).splitlines()
    return {"study": study, "key": key, "reason": lines[0], "traceback": "".join(traceback.format_exception(error))}


def clear_failures(store: Store) -> None:
    """Remove the failures of an earlier run."""
    (store.root / FAILURES).unlink(missing_ok=True)


def raise_failures(store: Store, failures: Sequence[dict[str, Any]], studies: int) -> None:
    """Record the failures, if any, and raise an error that counts them; ``studies`` is the number of all studies."""
    if not failures:
        return
    path, first = store.publish(FAILURES, json.dumps(failures, indent=1)), failures[0]
    raise FailedStudiesError(
        f"{len(failures)} of {studies} studies failed, the others are done and stored; the first was {first['study']} "
        f"({first['reason']}); see {path} for all reasons, and run the same command to try them again",
        failures,
        studies,
    )
