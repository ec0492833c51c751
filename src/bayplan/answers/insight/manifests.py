"""Manifests, as the API server and the controllers turn them into objects and pods.

Objects get their defaults, admission and validation from an embedded API server (`bayplan.answers.snapshots.objects`),
and workloads their pods from `bayplan.core.expansion`. Nothing is scheduled, and no controller runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.custom_workloads import children, has_pods, header_of, rules_not_run
from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.insight.new_pods import NewPods, document_of, key_of, name_of
from bayplan.answers.insight.owners import WORKLOADS, newest_revision
from bayplan.answers.insight.redeployment import Redeployment, redeployment
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import identify
from bayplan.answers.snapshots.objects import ADMISSION, Objects
from bayplan.answers.snapshots.snapshot import Snapshot, flattened
from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import Document, convert, decode, encode
from bayplan.core.api.status import StatusError
from bayplan.core.api.well_known_labels import POD_TEMPLATE_HASH, REVISION
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion import daemon_pods, job_pods, pods, stateful_pods
from bayplan.core.expansion.expansion import Expansion, Refused
from bayplan.core.expansion.owner_references import controller_reference
from bayplan.core.expansion.rollout import pod_template_hash
from bayplan.foundations.manifest_files import PlacedDocument

if TYPE_CHECKING:
    from bayplan.core.api.served import Pod


class Manifests:
    """Expands manifests in the cluster of a snapshot. Names are generated from `seed`.

    `room`: what may be created. Its LimitError ends an expansion.
    """

    def __init__(self, snapshot: Snapshot, seed: int = 0, room: AdditionLimit | None = None) -> None:
        self._snapshot = snapshot
        self._room = room or AdditionLimit()
        self._objects = Objects(snapshot, seed)
        self._deploying = False
        self._jobs = True
        self._last: dict[Any, int] = {}
        """(apiVersion, kind, namespace, name) -> the number of the last document with that identity"""
        self._before: dict[Any, Document | None] = {}
        """What objects were before the manifests."""
        self._pods = NewPods(self._objects, self._room)

    def expand(self, objects: Iterable[Mapping[str, Any]]) -> Expansion:
        """Return the objects with defaults, and the pods of pods, workloads and jobs.

        Pods are new ones, in addition to those that the workloads may have already. Raises QuestionError for the first
        object or pod that the API server refuses.
        """
        expansion = self._expand_all(objects)
        for refused in (*expansion.refused, *expansion.refused_pods):
            raise QuestionError(f"{refused.what}: {refused.message}")
        return expansion

    def deploy(self, objects: Iterable[Mapping[str, Any]], *, jobs: bool = True) -> Expansion:
        """Return what `kubectl apply` of the objects leads to: what exists is updated, with its pods.

        What the API server refuses is left out, and named in the expansion. Raises QuestionError if it refuses all.
        `jobs`: whether a CronJob that exists starts a Job with its new template now, or later.
        """
        self._deploying, self._jobs = True, jobs
        expansion = self._expand_all(objects)
        if expansion.refused and not (expansion.objects or expansion.pods or expansion.refused_pods or expansion.kept):
            first, *others = expansion.refused
            more = f", and {len(others)} more" if others else ""
            raise QuestionError(f"{first.what}: {first.message}{more}")
        return expansion

    def edit(self, kind: Kind, document: Document) -> Expansion:
        """Return what `kubectl edit` of a workload that exists leads to. Raises StatusError."""
        created, before = self._objects.replace(document)
        expansion = Expansion([created])
        if kind is not kinds.CRON_JOB:  # its next Job has the new template
            self._redeploy(redeployment(self._snapshot, kind, before, created), expansion)
        return expansion

    def missing(self, kind: Kind, document: Document) -> Expansion:
        """Return the pods that a workload of the snapshot lacks, with their claims. `document`: the workload.

        There are none if the API server refuses one of its other objects: then its controller makes no pods.
        """
        expansion = Expansion()
        found = redeployment(self._snapshot, kind, document, document)
        if found.document is not None:
            try:
                self._redeploy(replace(found, document=_with_uid(found.document)), expansion)
            except StatusError:
                return Expansion()
        return expansion

    def successor(self, kind: Kind, document: Document, pod: PodInfo) -> Document:
        """Return the pod that a workload makes in the place of one of its pods, for its ordinal or its node.

        Raises StatusError if the API server refuses it.
        """
        owner: Any = convert(kind.type, _with_uid(document))
        if kind is kinds.STATEFUL_SET:
            number = stateful_pods.parent_and_ordinal(pod.name)[1]
            new = stateful_pods.new_pod(owner, owner.spec.template, "0", number)
        elif kind is kinds.DAEMON_SET:
            new = daemon_pods.new_pod(owner, "0", daemon_pods.target_node(cast("Pod", pod.object)) or "")
        else:
            spec = owner.spec.jobTemplate.spec if kind is kinds.CRON_JOB else owner.spec
            new = pods.from_template(spec.template, kind, owner)
        created = self._objects.create(document_of(kinds.POD, new, pod.namespace))
        self._objects.forget(kinds.POD, key_of(created))
        return created

    def daemon_pods(self, document: Document, nodes: Sequence[str]) -> Expansion:
        """Return the pods that a DaemonSet of the snapshot makes for nodes that have none of it."""
        expansion = Expansion()
        self._create_daemon_pods(convert(kinds.DAEMON_SET.type, _with_uid(document)), nodes, expansion)
        return expansion

    def _expand_all(self, objects: Iterable[Mapping[str, Any]]) -> Expansion:
        expansion = Expansion()
        documents = list(flattened(objects))
        self._last = {_identity(document): number for number, document in enumerate(documents, start=1)}
        for early in (True, False):  # classes and templates first, whatever their place in the file
            for number, document in enumerate(documents, start=1):
                if (header_of(document) in _NEEDED_FIRST) is early:
                    self._try(number, document, expansion)
        return expansion

    def _try(self, number: int, given: Mapping[str, Any], expansion: Expansion) -> None:
        """Expand an object of the manifests; note it if it is refused. Of several versions, the last one counts."""
        document, name = dict(given), name_of(given)
        what = f"{given.where}: {name}" if isinstance(given, PlacedDocument) else f"object {number} ({name})"
        identity = _identity(document)
        try:
            self._objects.check_fields(document)
            if self._deploying and identity is not None and self._last[identity] != number:
                _, before = self._objects.apply(document)
                self._before.setdefault(identity, before)
                return
            self._expand(document, expansion)
        except StatusError as error:
            if header_of(document) == _POD and error.code == _FORBIDDEN:
                expansion.refused_pods.append(Refused(key_of(document), error.message))
            else:
                expansion.refused.append(Refused(what, error.message))
        except SnapshotError as error:
            expansion.refused.append(Refused(what, str(error)))

    def _expand(self, document: Document, expansion: Expansion) -> None:
        kind = _KINDS.get(header_of(document))
        before = None
        if self._deploying or kind not in _ADDITIONAL:
            created, before = self._objects.apply(document)
            before = self._before.get(_identity(document), before)
        else:
            created = self._objects.create(document)
        if kind is kinds.POD:
            if before is None:
                self._pods.add(created, expansion)
            else:
                expansion.kept.append(key_of(created))
            return
        identify(created)  # a kind that can't exist is refused
        if kind is kinds.PERSISTENT_VOLUME and not created["spec"].get("claimRef") and before is None:
            created["status"] = {"phase": "Available"}  # as the volume controller does
        expansion.objects.append(created)
        if kind is None:
            self._custom(created, expansion)
        elif before is not None and kind in WORKLOADS and kind is not kinds.CRON_JOB:
            self._redeploy(redeployment(self._snapshot, kind, before, created), expansion)
        elif kind in WORKLOADS and (before is None or self._jobs):
            self._workloads[kind](created, expansion)

    # Workloads

    @property
    def _workloads(self) -> Mapping[Kind, Callable[[Document, Expansion], None]]:
        return {
            kinds.DEPLOYMENT: self._deployment,
            kinds.REPLICA_SET: partial(self._replicas, kinds.REPLICA_SET),
            kinds.REPLICATION_CONTROLLER: partial(self._replicas, kinds.REPLICATION_CONTROLLER),
            kinds.STATEFUL_SET: self._stateful_set,
            kinds.DAEMON_SET: self._daemon_set,
            kinds.JOB: self._job,
            kinds.CRON_JOB: self._cron_job,
        }

    def _redeploy(self, found: Redeployment, expansion: Expansion) -> None:
        """Update a workload that exists: some of its pods stay, others go or are replaced."""
        running = [key for key in found.replaced if found.kind is kinds.DEPLOYMENT or self._runs(key)]
        staying = set(running[-found.least :] if found.least > 0 else ())
        with self._pods.beside(staying):
            for key in (*found.removed, *found.replaced, *(found.kept if found.makes_all else ())):
                if key not in staying:
                    self._objects.forget(kinds.POD, key)
            expansion.kept += found.kept
            expansion.removed += found.removed
            if found.document is not None:
                first = len(expansion.pods)
                self._workloads[found.kind](found.document, expansion)
                expansion.pods[first:] = filter(found.is_new, expansion.pods[first:])
                if found.replaced or found.must_run:
                    rollout = found.rollout(expansion.pods[first:])
                    expansion.rollouts.append(replace(rollout, most=self._pods.most_beside(rollout.most)))

    def _runs(self, key: str) -> bool:
        return bool(((self._snapshot.document(kinds.POD, key) or {}).get("spec") or {}).get("nodeName"))

    def _custom(self, document: Document, expansion: Expansion) -> None:
        """Add what the controller of a known custom resource makes of it; note others."""
        made = children(document)
        expansion.not_run += (f"{name_of(document)}: {rule}" for rule in rules_not_run(document))
        if made is None:
            if has_pods(document):
                expansion.unknown.append(f"{name_of(document)} ({document['apiVersion']})")
            return
        counted = []
        for child in made:
            pods = int(header_of(child) == _POD)
            self._room.count(name_of(document), pods=pods, objects=1 - pods, memory=len(msgspec.json.encode(child)))
            counted.append(child)
        for child in counted:
            self._expand(child, expansion)

    def _deployment(self, document: Document, expansion: Expansion) -> None:
        deployment: Any = convert(kinds.DEPLOYMENT.type, document)
        labels = {POD_TEMPLATE_HASH: pod_template_hash(deployment.spec.template, None)}
        spec = {name: document["spec"][name] for name in ("replicas", "selector", "template")}
        spec["selector"] = _with(spec["selector"], "matchLabels", labels)
        spec["template"] = {**spec["template"], "metadata": _with(spec["template"].get("metadata"), "labels", labels)}
        replica_set = {
            "apiVersion": kinds.REPLICA_SET.api_version,
            "kind": kinds.REPLICA_SET.kind,
            "metadata": {
                "name": f"{deployment.metadata.name}-{labels[POD_TEMPLATE_HASH]}",
                "namespace": deployment.metadata.namespace,
                "labels": spec["template"]["metadata"]["labels"],
                "annotations": {REVISION: str(newest_revision(self._snapshot, document["metadata"]) + 1)},
                "ownerReferences": [msgspec.to_builtins(controller_reference(kinds.DEPLOYMENT, deployment))],
            },
            "spec": spec,
        }
        created, _ = self._objects.apply(replica_set)
        expansion.objects.append(created)
        self._replicas(kinds.REPLICA_SET, created, expansion)

    def _replicas(self, kind: Kind, document: Document, expansion: Expansion) -> None:
        owner: Any = convert(kind.type, document)
        number = self._at_most(owner.spec.replicas or 0, owner)
        new = (pods.from_template(owner.spec.template, kind, owner) for _ in range(number))
        self._pods.create(new, owner, expansion)

    def _stateful_set(self, document: Document, expansion: Expansion) -> None:
        owner: Any = convert(kinds.STATEFUL_SET.type, document)
        self._at_most(owner.spec.replicas or 0, owner)
        for number in stateful_pods.ordinals(owner):
            pod = stateful_pods.new_pod(owner, owner.spec.template, "0", number)
            for claim in stateful_pods.new_claims(owner, pod):
                if f"{owner.metadata.namespace}/{claim.metadata.name}" not in self._known_claims:
                    self._pods.create_claim(kinds.PERSISTENT_VOLUME_CLAIM, claim, owner.metadata.namespace, expansion)
            self._pods.create([pod], owner, expansion)

    def _daemon_set(self, document: Document, expansion: Expansion) -> None:
        owner: Any = convert(kinds.DAEMON_SET.type, document)
        eligible = daemon_pods.Eligibility.of(owner)
        nodes = self._snapshot.of_kind(kinds.NODE).items()
        names = [name for name, raw in nodes if eligible.judge(decode(kinds.NODE.type, raw)).run]
        self._create_daemon_pods(owner, names, expansion)

    def _create_daemon_pods(self, owner: Any, nodes: Sequence[str], expansion: Expansion) -> None:
        self._at_most(len(nodes), owner)
        for name in nodes:
            self._pods.create([daemon_pods.new_pod(owner, "0", name)], owner, expansion)

    def _job(self, document: Document, expansion: Expansion) -> None:
        job: Any = convert(kinds.JOB.type, document)
        if job.spec.suspend:
            return
        number = job.spec.parallelism if job.spec.parallelism is not None else 1
        number = min(number, job.spec.completions) if job.spec.completions is not None else number
        indexed = job.spec.completionMode == "Indexed"
        number = self._at_most(number, job)
        new = (job_pods.new_pod(job, index if indexed else None) for index in range(number))
        self._pods.create(new, job, expansion)

    def _cron_job(self, document: Document, expansion: Expansion) -> None:
        template = document["spec"]["jobTemplate"]
        metadata = {"generateName": f"{document['metadata']['name']}-", "namespace": document["metadata"]["namespace"]}
        job = {
            "apiVersion": kinds.JOB.api_version,
            "kind": kinds.JOB.kind,
            "metadata": metadata,
            "spec": template["spec"],
        }
        self._expand(job, expansion)

    def _at_most(self, number: int, owner: Any) -> int:
        """The number of a workload's pods. Raises LimitError."""
        where = f"{owner.metadata.namespace}/{owner.metadata.name or owner.metadata.generateName}"
        self._room.count(where, pods=number, memory=number * len(encode(owner.spec.template)))
        return number

    @property
    def _known_claims(self) -> Mapping[str, bytes]:
        return self._snapshot.of_kind(kinds.PERSISTENT_VOLUME_CLAIM)


def _with_uid(document: Document) -> Document:
    """An object with a uid, which those that are written by hand lack: pods are owned by it."""
    metadata = document["metadata"]
    uid = metadata.get("uid") or f"uid-{key_of(document)}"
    return {**document, "metadata": {**metadata, "uid": uid}}


def _with(obj: Mapping[str, Any] | None, name: str, entries: Mapping[str, str]) -> Document:
    return {**(obj or {}), name: {**((obj or {}).get(name) or {}), **entries}}


def _identity(document: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The kind, namespace and name of a document; None without a name."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return (*header_of(document), str(metadata.get("namespace") or "default"), str(name)) if metadata and name else None


_KINDS = {(kind.api_version, kind.kind): kind for kind in kinds.KINDS}
_NEEDED_FIRST = {(kind.api_version, kind.kind) for kind in (*ADMISSION, kinds.RESOURCE_QUOTA)}
_ADDITIONAL = frozenset({kinds.POD, *WORKLOADS})
_POD = (kinds.POD.api_version, kinds.POD.kind)
_FORBIDDEN = 403
