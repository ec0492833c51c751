"""What a plugin does where its objects are redacted, as far as they rest on names: a hash of names, for example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from bayplan.core.cluster.pod_info import PodInfo


class RedactedPods(Protocol):
    """The pods of a recording that is being redacted, as they were seen last."""

    def on(self, node: str) -> Sequence[PodInfo]:
        """Return the pods on a node, with their own names."""

    def renamed(self, pod: PodInfo) -> tuple[str, str]:
        """Return the new namespace and name of a pod."""


@runtime_checkable
class KeepRedacted(Protocol):
    """A capability of plugins that Bayplan ships: what decisions rest on stays in redacted objects."""

    @classmethod
    def keep_redacted(cls, kind: str, old: Mapping[str, Any], new: dict[str, Any], pods: RedactedPods) -> str:
        """Add to a redacted object what decisions of the plugin rest on, with the new names.

        `kind`: `plural.group` of the object; `old`: as it was; `new`: its known fields, redacted. Returns what can't
        be kept, for a message; "" if nothing is lost.
        """
