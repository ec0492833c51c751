"""Queueing hints that several plugins share, and the topics by which the queue finds the pods to ask them about.

A hint is pure: it says whether an event may help a pod, and changes nothing. An event may ask it about only some pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from lightkube.models.core_v1 import Node, PersistentVolumeClaim

from bayplan.core.api.labels import InvalidSelector
from bayplan.core.api.volumes import claim_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import Hint, Topics

P = ParamSpec("P")


def after_own_update(pod: PodInfo, _old: PodInfo | None, new: PodInfo) -> Hint:
    """Requeue the pod that was updated, and no other."""
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP


OWN_UPDATE = Topics(lambda pod: (pod.uid,), lambda _old, new: (new.uid,))
"""The topics of `after_own_update`."""


def after_claim_change(pod: PodInfo, _old: Any, new: PersistentVolumeClaim) -> Hint:
    """Requeue the pods with a volume that names the claim. Claims of ephemeral volumes are ignored."""
    if new.metadata is None or new.metadata.namespace != pod.namespace:
        return Hint.SKIP
    claims = (volume.persistentVolumeClaim for volume in pod.volumes)
    used = any(claim is not None and claim.claimName == new.metadata.name for claim in claims)
    return Hint.QUEUE if used else Hint.SKIP


def _claims_of(pod: PodInfo) -> list[tuple[str, str]]:
    """The namespace and name of each claim of a pod, with those of its ephemeral volumes."""
    return [(pod.namespace, name) for volume in pod.volumes if (name := claim_name(pod.name, volume))]


def _changed_claim(_old: Any, new: PersistentVolumeClaim) -> list[tuple[str | None, str]] | None:
    return [(new.metadata.namespace, new.metadata.name)] if new.metadata and new.metadata.name else None


OWN_CLAIM = Topics(_claims_of, _changed_claim)
"""The topics of hints that requeue the pods with a claim that was added or changed."""


def requeue_if_invalid(hint: Callable[P, Hint]) -> Callable[P, Hint]:
    """Wrap a hint that parses selectors: it requeues if one of them is invalid, as upstream does."""

    @wraps(hint)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Hint:
        try:
            return hint(*args, **kwargs)
        except InvalidSelector:
            return Hint.QUEUE

    return wrapped


def labels_of(node: Node | None) -> Mapping[str, str]:
    """Return the labels of the node before or after an event; empty if there is no such node."""
    return (node.metadata.labels if node is not None and node.metadata else None) or {}
