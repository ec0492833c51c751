"""NewPods: creates the pods of manifests, with the claims that controllers make for them.

Each is created in the embedded API server, whose quotas count it. Beside pods of a workload that stay until they have a
successor, a pod that a quota refuses is created once enough of these have gone, as in a rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.snapshots.objects import Objects
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import Document, convert, encode
from bayplan.core.api.status import StatusError
from bayplan.core.api.volumes import claim_name
from bayplan.core.expansion.claims import claim_of_template
from bayplan.core.expansion.expansion import Expansion, Refused
from bayplan.core.expansion.owner_references import controller_reference


class NewPods:
    """Creates pods. `limit`: what may be created; its LimitError ends an expansion."""

    def __init__(self, objects: Objects, limit: AdditionLimit) -> None:
        self._objects = objects
        self._limit = limit
        self._staying: set[str] = set()
        """The pods of a workload that run until a successor does. Quotas count them."""
        self._at_begin = 0
        """How many of these there were."""
        self._successors = 0
        """How many successors there are."""
        self._surge: int | None = None
        """How many successors quotas allow beside all of these pods; None if that is no limit."""

    @contextmanager
    def beside(self, staying: Iterable[str]) -> Iterator[None]:
        """Create the successors of pods that stay until these run. Once there is one, all of them have gone."""
        self._staying = set(staying)
        self._at_begin, self._successors, self._surge = len(self._staying), 0, None
        try:
            yield
            while self._staying and self._successors:
                self._objects.forget(kinds.POD, self._staying.pop())
        finally:
            self._staying = set()

    def most_beside(self, most: int) -> int:
        """Return how many pods a rollout has at a time, if it may have `most`: quotas may allow fewer."""
        return most if self._surge is None else min(most, self._at_begin + self._surge)

    def create(self, new: Iterable[Any], owner: Any, expansion: Expansion) -> None:
        """Create pods of a workload, which differ only in their names. After a refused one, the others are, too."""
        rejection = ""
        for pod in new:
            self._limit.progress(f"{len(expansion.pods):,} pods")
            document = document_of(kinds.POD, pod, owner.metadata.namespace)
            if not rejection:
                try:
                    self.add(self._successor(document), expansion)
                    continue
                except StatusError as error:
                    rejection = error.message
            metadata = document["metadata"]
            metadata.setdefault("name", f"{metadata.get('generateName', '')}{self._objects.suffix()}")
            expansion.refused_pods.append(Refused(key_of(document), rejection))

    def add(self, document: Document, expansion: Expansion) -> None:
        """Add a created pod, with the claims that controllers make for it."""
        pod: Any = convert(kinds.POD.type, document)
        namespace = pod.metadata.namespace
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is not None:
                claim = {
                    "metadata": {
                        "name": claim_name(pod.metadata.name, volume),
                        "ownerReferences": [msgspec.to_builtins(controller_reference(kinds.POD, pod))],
                    },
                    "spec": msgspec.to_builtins(volume.ephemeral.volumeClaimTemplate.spec),
                }
                self.create_claim(kinds.PERSISTENT_VOLUME_CLAIM, claim, namespace, expansion)
        statuses = []
        for reference in pod.spec.resourceClaims or ():
            template = self._claim_template(namespace, reference.resourceClaimTemplateName)
            if template is not None:
                made = claim_of_template(template, kinds.POD, pod, reference.name)
                created = self.create_claim(kinds.RESOURCE_CLAIM, made, namespace, expansion)
                statuses.append({"name": reference.name, "resourceClaimName": created["metadata"]["name"]})
        if statuses:
            document["status"] = {**(document.get("status") or {}), "resourceClaimStatuses": statuses}
        expansion.pods.append(document)

    def _claim_template(self, namespace: str, name: str | None) -> Any:
        if name is None:
            return None
        kind = kinds.RESOURCE_CLAIM_TEMPLATE
        metadata = {"namespace": namespace, "name": name}
        found = self._objects.existing({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
        # Without its template, the pod waits for its claim, as it does in a cluster.
        return None if found is None else convert(kind.type, found)

    def create_claim(self, kind: Kind, claim: Any, namespace: str, expansion: Expansion) -> Document:
        """Create a claim, and return it as it is stored. Raises StatusError and LimitError."""
        document = document_of(kind, claim, namespace)
        self._limit.count(name_of(document), objects=1, memory=len(msgspec.json.encode(document)))
        created = self._objects.create(document)
        expansion.objects.append(created)
        return created

    def _successor(self, document: Document) -> Document:
        """Create a pod of a workload, after as many of the old ones have gone as quotas need. Raises StatusError."""
        while True:
            try:
                created = self._objects.create(document)
            except StatusError:
                if not self._staying or not self._successors:
                    raise
                self._surge = self._successors if self._surge is None else self._surge
                self._objects.forget(kinds.POD, self._staying.pop())
            else:
                self._successors += 1
                return created


def document_of(kind: Kind, obj: Any, namespace: str) -> Document:
    """Return an object as a document with its namespace."""
    document: Document = msgspec.json.decode(encode(obj))
    metadata = {**document["metadata"], "namespace": namespace}
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def key_of(document: Mapping[str, Any]) -> str:
    """Return `namespace/name` of a document."""
    metadata = document["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"


def name_of(document: Mapping[str, Any]) -> str:
    """Return the kind and the name of a document, for people."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{document.get('kind')} {metadata.get('name') or metadata.get('generateName') or 'without a name'}"
