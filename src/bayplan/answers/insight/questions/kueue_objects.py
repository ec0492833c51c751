"""The objects of Kueue in a snapshot, read once: which Workload is whose, and in which ClusterQueue it waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.questions.quotas_of_kueue import Document, QuotaNode, quota_tree
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import kueue
from bayplan.core.api.kinds import Kind

HOLDS = {"Hold", "HoldAndDrain"}
"""The stop policies of queues that admit nothing."""
_Owner = tuple[str, str, str]
"""The namespace, the kind and the name of the object that a Workload is for."""


@dataclass(frozen=True, slots=True)
class QueuedObject:
    """The object that a Workload is for, such as a Job: its kind, namespace, name and uid.

    `workload`: the name of the Workload, if the object tells it. `queue`: that of its LocalQueue, by its label.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    workload: str = ""
    queue: str = ""

    @classmethod
    def of(cls, kind: str, document: Document) -> QueuedObject:
        """The owner that an object is."""
        metadata = document.get("metadata") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        return cls(
            kind,
            metadata.get("namespace") or "default",
            metadata.get("name") or "",
            metadata.get("uid") or "",
            str(annotations.get(kueue.WORKLOAD_ANNOTATION) or ""),
            str(labels.get(kueue.QUEUE_LABEL) or ""),
        )


@dataclass
class KueueObjects:
    """What Kueue has in a snapshot. Methods raise what odd objects raise: see `UNREADABLE` of `kueue`."""

    snapshot: Snapshot
    _known: dict[Kind, list[Document]] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        """Whether the snapshot has queues of Kueue."""
        return bool(self.snapshot.of_kind(kueue.CLUSTER_QUEUES) or self.snapshot.of_kind(kueue.LOCAL_QUEUES))

    def all(self, kind: Kind) -> list[Document]:
        """All objects of a kind."""
        if kind not in self._known:
            self._known[kind] = [self.snapshot.document(kind, key) or {} for key in self.snapshot.of_kind(kind)]
        return self._known[kind]

    def named(self, kind: Kind, name: str, namespace: str = "") -> Document | None:
        """The object with a name; None if there is none."""
        if namespace:
            return self.snapshot.document(kind, f"{namespace}/{name}")
        # An object without a namespace that was written by hand counts as one of the namespace "default".
        return self.snapshot.document(kind, name) or self.snapshot.document(kind, f"default/{name}")

    def unknown_versions(self) -> Iterator[str]:
        """Yield which objects are not read, because of their version."""
        for kind, known in self.snapshot.documents.items():
            if kind.group == kueue.GROUP and kind.version not in kueue.VERSIONS:
                versions = " and ".join(sorted(kueue.VERSIONS))
                yield (
                    f"{plural(len(known), 'object')} of {kind.plural} in {kueue.GROUP}/{kind.version} are not read: "
                    f"{versions} are known"
                )

    def workload_of(self, owners: Iterable[QueuedObject]) -> Document | None:
        """The Workload of the first object that has one."""
        for owner in owners:
            named = self.named(kueue.WORKLOADS, owner.workload, owner.namespace) if owner.workload else None
            if named is not None:
                return named
            for uid, workload in self._owners.get((owner.namespace, owner.kind, owner.name), ()):
                if owner.uid in {"", uid}:
                    return workload
        return None

    @cached_property
    def _owners(self) -> Mapping[_Owner, list[tuple[str, Document]]]:
        found: dict[_Owner, list[tuple[str, Document]]] = {}
        for workload in self.all(kueue.WORKLOADS):
            metadata = workload.get("metadata") or {}
            for reference in metadata.get("ownerReferences") or ():
                owner = metadata.get("namespace", "default"), reference.get("kind"), reference.get("name")
                found.setdefault(owner, []).append((reference.get("uid", ""), workload))
        return found

    def cluster_queue_of(self, namespace: str, local: str) -> Document | None:
        """The ClusterQueue of a LocalQueue."""
        found = self.named(kueue.LOCAL_QUEUES, local, namespace)
        wanted = ((found or {}).get("spec") or {}).get("clusterQueue")
        return self.named(kueue.CLUSTER_QUEUES, wanted) if wanted else None

    def quota_tree(self, queue: str) -> QuotaNode | None:
        """A ClusterQueue in its tree of cohorts. Raises CohortCycleError."""
        return quota_tree(self.all(kueue.CLUSTER_QUEUES), self.all(kueue.COHORTS), queue)

    def waits_in(self, workload: Document) -> str:
        """The ClusterQueue in which a workload waits for quota; "" if it doesn't."""
        spec = workload.get("spec") or {}
        if spec.get("active") is False or any(is_true(workload, one) for one in ("QuotaReserved", "Finished")):
            return ""
        namespace, _ = name_of(workload)
        found = self.cluster_queue_of(namespace, spec.get("queueName") or "")
        return "" if found is None else str(found["metadata"]["name"])

    def stopped(self, workload: Document) -> bool:
        """Whether the queues of a workload are stopped, so that it isn't admitted whatever quota is free."""
        namespace, _ = name_of(workload)
        local = (workload.get("spec") or {}).get("queueName") or ""
        queues = (self.named(kueue.LOCAL_QUEUES, local, namespace), self.cluster_queue_of(namespace, local))
        return any(each is None or (each.get("spec") or {}).get("stopPolicy") in HOLDS for each in queues)


def name_of(document: Document) -> tuple[str, str]:
    """The namespace and the name of an object."""
    metadata = document["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]


def conditions_of(document: Document) -> dict[str, Mapping[str, Any]]:
    """The conditions of an object by their types."""
    return {each.get("type"): each for each in (document.get("status") or {}).get("conditions") or ()}


def is_true(document: Document, type_: str) -> bool:
    """Whether an object has a condition that is true."""
    return (conditions_of(document).get(type_) or {}).get("status") == "True"
