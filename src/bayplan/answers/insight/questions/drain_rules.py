"""Which pods of a node `kubectl drain` evicts, ignores, or refuses to touch.

Mirrors the filters and messages in kubectl's pkg/drain/filters.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bayplan.answers.simulation.owners import controller_of
from bayplan.core.api.kinds import DAEMON_SET
from bayplan.core.cluster.pod_info import PodInfo

DAEMON_SET_FATAL = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
DAEMON_SET_WARNING = "ignoring DaemonSet-managed Pods"
LOCAL_STORAGE_FATAL = "Pods with local storage (use --delete-emptydir-data to override)"
LOCAL_STORAGE_WARNING = "deleting Pods with local storage"
UNMANAGED_FATAL = "cannot delete Pods that declare no controller (use --force to override)"
UNMANAGED_WARNING = "deleting Pods that declare no controller"

_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class DrainRules:
    """The flags of `kubectl drain`, and whether a DaemonSet (`namespace/name`) exists."""

    ignore_daemonsets: bool = False
    delete_emptydir_data: bool = False
    force: bool = False
    daemon_set_exists: Callable[[str], bool] = lambda _: True

    def sort(self, pods: Iterable[PodInfo]) -> SortedPods:
        """Sort the pods of a node by what happens to them."""
        found = SortedPods()
        for pod in sorted(pods, key=lambda pod: pod.key):
            self._sort(pod, found)
        return found

    def _sort(self, pod: PodInfo, found: SortedPods) -> None:
        controller = controller_of(pod)
        if controller is not None and controller.kind == DAEMON_SET.kind:
            if not self.daemon_set_exists(f"{pod.namespace}/{controller.name}"):
                missing = f'daemonsets.apps "{controller.name}" not found'
                if not self.force:
                    found.refuse(missing, pod)
                    return
                found.warn(missing, pod)
            else:
                if self.ignore_daemonsets:
                    found.warn(DAEMON_SET_WARNING, pod)
                else:
                    found.refuse(DAEMON_SET_FATAL, pod)
                return
        if is_mirror(pod):
            found.static.append(pod)
            return
        if has_local_storage(pod):
            if not self.delete_emptydir_data:
                found.refuse(LOCAL_STORAGE_FATAL, pod)
                return
            found.warn(LOCAL_STORAGE_WARNING, pod)
        if controller is None:
            if not self.force:
                found.refuse(UNMANAGED_FATAL, pod)
                return
            found.warn(UNMANAGED_WARNING, pod)
        found.evicted.append(pod)


@dataclass(slots=True)
class SortedPods:
    """The pods of a node. None of `evicted` is evicted if there are `errors`. `static`: mirror pods, which stay."""

    evicted: list[PodInfo] = field(default_factory=list)
    static: list[PodInfo] = field(default_factory=list)
    refused: dict[str, list[PodInfo]] = field(default_factory=dict)
    warned: dict[str, list[PodInfo]] = field(default_factory=dict)

    def refuse(self, message: str, pod: PodInfo) -> None:
        """Record that a pod keeps the node from being drained."""
        self.refused.setdefault(message, []).append(pod)

    def warn(self, message: str, pod: PodInfo) -> None:
        """Record a warning about a pod."""
        self.warned.setdefault(message, []).append(pod)

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors of `kubectl drain`."""
        return tuple(f"cannot delete {message}: {_keys(pods)}" for message, pods in self.refused.items())

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of `kubectl drain`."""
        return tuple(f"{message}: {_keys(pods)}" for message, pods in self.warned.items())


def is_mirror(pod: PodInfo) -> bool:
    """Return whether the pod is the mirror of a static pod, which only its kubelet can end."""
    return _facts(pod)[0]


def has_local_storage(pod: PodInfo) -> bool:
    """Return whether the pod has an emptyDir volume."""
    return _facts(pod)[1]


def _facts(pod: PodInfo) -> tuple[bool, bool]:
    """The results of the two functions above. They are cached, because the object of most pods is decoded again."""
    facts: tuple[bool, bool] | None = pod.cache.get(DrainRules)
    if facts is None:
        whole: Any = pod.object
        local_storage = any(volume.emptyDir is not None for volume in whole.spec.volumes or ())
        facts = pod.cache[DrainRules] = (_MIRROR in (whole.metadata.annotations or {}), local_storage)
    return facts


def _keys(pods: Iterable[PodInfo]) -> str:
    return ", ".join(pod.key for pod in pods)
