"""The methods that scikit-learn expects of an estimator; scikit-learn itself is not needed."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, ClassVar, TypeVar

Self = TypeVar("Self", bound="Parameters")


class Parameters:
    """An estimator whose parameters are the arguments of ``__init__``, stored under their names without change.

    ``fit`` checks them and ``__init__`` does not, since scikit-learn sets them one by one.
    """

    _task: ClassVar[str]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. ``deep`` has no effect, as no parameter is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self: Self, **params: Any) -> Self:
        """Set some of the parameters."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__}: there is no parameter {name!r}; the parameters are {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that it takes lists of graphs, and that the graphs may hold the targets."""
        tags = importlib.import_module("sklearn.utils")
        classifier = self._task == "classification"
        return tags.Tags(
            estimator_type="classifier" if classifier else "regressor",
            target_tags=tags.TargetTags(required=False, one_d_labels=True),
            classifier_tags=tags.ClassifierTags() if classifier else None,
            regressor_tags=None if classifier else tags.RegressorTags(),
            input_tags=tags.InputTags(two_d_array=False),
        )
