"""Pods that arrive without having been observed: the rows of traces and of synthesized histories.

Each template is made into a pod once, by the API server of a snapshot with its defaults and admission; all others are
copies of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from bayplan.answers.history import format as columns
from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.snapshots import Snapshot
from bayplan.answers.snapshots.objects import Objects
from bayplan.core.api.kinds import POD
from bayplan.core.api.status import StatusError

_UIDS = UUID("6b1f6a0e-8a53-5d0c-9b39-3f0c0b2a7d11")
"""The namespace of the uids, which follow from the names."""


class Arrivals:
    """Makes pods from templates, as the API server of a snapshot would, with its defaults and admission."""

    def __init__(self, snapshot: Snapshot, following: Following, seed: int = 0) -> None:
        self._objects = Objects(snapshot, seed)
        self._following = following
        self._pods: dict[str, dict[str, Any]] = {}
        self._names: Counter[str] = Counter()

    def pod(self, key: str, template: dict[str, Any]) -> str:
        """Make the pod that others are copied from, unless there is one with this key. Returns why it is refused."""
        if key in self._pods:
            return ""
        metadata = {**template.get("metadata", {}), "name": f"template-{len(self._pods)}"}
        try:
            made = self._objects.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec", {})}
            )
        except StatusError as error:
            return str(error)
        self._pods[key] = {**made, "status": {}}
        return ""

    def arrive(
        self,
        key: str,
        namespace: str,
        name: str,
        time: datetime,
        runs: float | None,
        owner: dict[str, Any] | None = None,
    ) -> Iterator[HistoryChange]:
        """A copy arrives. `runs`: see PodArrived. `owner`: its controller's reference."""
        made, full_name = self._pods[key], f"{namespace}/{name}"
        self._names[full_name] += 1  # StatefulSets use names again
        uid = str(uuid5(_UIDS, f"{full_name}/{self._names[full_name]}"))
        metadata = {**made["metadata"], "name": name, "namespace": namespace, "uid": uid}
        metadata.pop("creationTimestamp", None)
        if owner is not None:
            metadata["ownerReferences"] = [{"controller": True, **owner}]
        for change in self._following.put(POD, {**made, "metadata": metadata}, time):
            if change.row.event == columns.POD_ARRIVED:
                change.row.runs_seconds = runs
            yield change


def at_begin(snapshot: Snapshot, following: Following, begin: datetime) -> Iterator[HistoryChange]:
    """The objects of a snapshot, as they are at the start of a history."""
    for kind, known in snapshot.documents.items():
        for key in known:
            document = snapshot.document(kind, key)
            assert document is not None
            yield from following.put(kind, document, begin, initial=True)
