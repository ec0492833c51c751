"""Label selectors of workloads. Mirrors apimachinery's pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightkube.models.meta_v1 import LabelSelector, LabelSelectorRequirement


@dataclass(frozen=True, slots=True)
class Selector:
    """A `metav1.LabelSelector`: None matches nothing, an empty one matches everything."""

    selector: LabelSelector | None

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the selector matches labels."""
        if self.selector is None:
            return False
        labels = labels or {}
        return all(labels.get(key) == value for key, value in (self.selector.matchLabels or {}).items()) and all(
            _satisfies(requirement, labels) for requirement in self.selector.matchExpressions or ()
        )


def _satisfies(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in (requirement.values or ())
        case "NotIn":
            return value is None or value not in (requirement.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
