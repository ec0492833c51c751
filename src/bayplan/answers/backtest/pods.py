"""Pods of a history. Those with equal documents share what is computed of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo

_KEPT = 4096
"""How many documents are remembered."""
_PARTS = ("labels", "annotations", "ownerReferences")


class PodMaker:
    """Makes pods of documents, which share parts if they are equal."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Mapping[str, Any], PodInfo]] = OrderedDict()

    def make(self, document: Mapping[str, Any], created: datetime) -> PodInfo:
        """Return the pod of a document. Raises ValueError for one that is malformed."""
        known = self._known.get(id(document["spec"]))
        if known is not None and _alike(known[0], document):
            self._known.move_to_end(id(document["spec"]))
            metadata = document["metadata"]
            pod = known[1].replica(metadata["name"], metadata["uid"], "")
        else:
            pod = PodInfo.from_raw(encode(document))
            if not pod.volumes and not pod.spec.resourceClaims and not pod.spec.schedulingGates:
                self._known[id(document["spec"])] = document, pod
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        pod.creation_timestamp = created
        return pod


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents differ only in what identifies an object. The first one is kept, so its parts live on."""
    first, second = one["metadata"], other["metadata"]
    return (
        one["spec"] is other["spec"]
        and first.get("namespace") == second.get("namespace")
        and all(first.get(part) is second.get(part) for part in _PARTS)
    )
