"""Manifests, as the API server and the controllers turn them into objects and pods.

Objects get their defaults, admission and validation from an embedded API server, and workloads their pods from the
functions of the embedded controllers. Nothing is scheduled, and no controller runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from bayplan.api.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    JOB,
    KINDS,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RUNTIME_CLASS,
    STATEFUL_SET,
    STORAGE_CLASS,
    Kind,
)
from bayplan.api.objects import convert, decode, encode
from bayplan.api.volumes import claim_name
from bayplan.devcluster.apiserver import ApiServer
from bayplan.devcluster.apiserver.endpoints.decoding import FieldValidation, accept
from bayplan.devcluster.apiserver.status import StatusError
from bayplan.devcluster.controllers import daemon_pods, job_pods, pods, stateful_pods
from bayplan.devcluster.controllers.ownership import controller_reference
from bayplan.devcluster.controllers.resource_claims import claim_of_template
from bayplan.devcluster.controllers.rollout import POD_TEMPLATE_HASH, pod_template_hash
from bayplan.insight.answers import QuestionError
from bayplan.insight.snapshot import Snapshot, flattened

Document = dict[str, Any]

MOST_PODS = 1_000_000
"""Of one workload: more are a mistake."""

_ADMISSION = (
    NAMESPACE,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    LIMIT_RANGE,
    RUNTIME_CLASS,
    DEVICE_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
)
"""The kinds that admission and the controllers read."""


@dataclass(slots=True)
class Expansion:
    """The objects that manifests lead to, as documents with `apiVersion` and `kind`. `pods` are in their order."""

    objects: list[Document] = field(default_factory=list)
    pods: list[Document] = field(default_factory=list)


class Manifests:
    """Expands manifests in the cluster of a snapshot. Names are generated from `seed`."""

    def __init__(self, snapshot: Snapshot, seed: int = 0) -> None:
        self._snapshot = snapshot
        self._server = ApiServer(listen=False, alpha=True)
        self._server.storage.random.seed(seed)
        for kind in _ADMISSION:
            for key in snapshot.of_kind(kind):
                document = snapshot.document(kind, key)
                assert document is not None
                self._restore(document)

    def expand(self, objects: Iterable[Mapping[str, Any]]) -> Expansion:
        """Return the objects with defaults, and the pods of pods, workloads and jobs. Raises QuestionError."""
        expansion = Expansion()
        documents = list(flattened(objects))
        for early in (True, False):  # classes and templates first, whatever their place in the file
            for number, document in enumerate(documents, start=1):
                if (_kind_of(document) in _NEEDED_FIRST) is early:
                    try:
                        self._expand(dict(document), expansion)
                    except StatusError as error:
                        raise QuestionError(f"object {number} ({_name_of(document)}): {error.message}") from None
        return expansion

    def _expand(self, document: Document, expansion: Expansion) -> None:
        created = self._create(document)
        kind = _KINDS.get(_kind_of(created))
        if kind is POD:
            self._add_pod(created, expansion)
            return
        if kind is PERSISTENT_VOLUME and not created["spec"].get("claimRef"):
            created["status"] = {"phase": "Available"}  # as the volume controller does
        expansion.objects.append(created)
        workloads: dict[Kind, Callable[[Document, Expansion], None]] = {
            DEPLOYMENT: self._deployment,
            REPLICA_SET: partial(self._replicas, REPLICA_SET),
            REPLICATION_CONTROLLER: partial(self._replicas, REPLICATION_CONTROLLER),
            STATEFUL_SET: self._stateful_set,
            DAEMON_SET: self._daemon_set,
            JOB: self._job,
            CRON_JOB: self._cron_job,
        }
        if kind in workloads:
            workloads[kind](created, expansion)

    # Workloads

    def _deployment(self, document: Document, expansion: Expansion) -> None:
        deployment: Any = convert(DEPLOYMENT.type, document)
        labels = {POD_TEMPLATE_HASH: pod_template_hash(deployment.spec.template, None)}
        spec = {name: document["spec"][name] for name in ("replicas", "selector", "template")}
        spec["selector"] = _with(spec["selector"], "matchLabels", labels)
        spec["template"] = {**spec["template"], "metadata": _with(spec["template"].get("metadata"), "labels", labels)}
        replica_set = {
            "apiVersion": REPLICA_SET.api_version,
            "kind": REPLICA_SET.kind,
            "metadata": {
                "name": f"{deployment.metadata.name}-{labels[POD_TEMPLATE_HASH]}",
                "namespace": deployment.metadata.namespace,
                "labels": spec["template"]["metadata"]["labels"],
                "ownerReferences": [msgspec.to_builtins(controller_reference(DEPLOYMENT, deployment))],
            },
            "spec": spec,
        }
        self._expand(replica_set, expansion)

    def _replicas(self, kind: Kind, document: Document, expansion: Expansion) -> None:
        owner: Any = convert(kind.type, document)
        for _ in range(_at_most(owner.spec.replicas or 0)):
            self._create_pod(pods.from_template(owner.spec.template, kind, owner), owner, expansion)

    def _stateful_set(self, document: Document, expansion: Expansion) -> None:
        owner: Any = convert(STATEFUL_SET.type, document)
        _at_most(owner.spec.replicas or 0)
        for number in stateful_pods.ordinals(owner):
            pod = stateful_pods.new_pod(owner, owner.spec.template, "0", number)
            for claim in stateful_pods.new_claims(owner, pod):
                if f"{owner.metadata.namespace}/{claim.metadata.name}" not in self._known_claims:
                    self._create_claim(PERSISTENT_VOLUME_CLAIM, claim, owner.metadata.namespace, expansion)
            self._create_pod(pod, owner, expansion)

    def _daemon_set(self, document: Document, expansion: Expansion) -> None:
        owner: Any = convert(DAEMON_SET.type, document)
        placement = daemon_pods.Placement.of(owner)
        for name, raw in self._snapshot.of_kind(NODE).items():
            if placement.judge(decode(NODE.type, raw)).run:
                self._create_pod(daemon_pods.new_pod(owner, "0", name), owner, expansion)

    def _job(self, document: Document, expansion: Expansion) -> None:
        job: Any = convert(JOB.type, document)
        if job.spec.suspend:
            return
        number = job.spec.parallelism if job.spec.parallelism is not None else 1
        number = min(number, job.spec.completions) if job.spec.completions is not None else number
        for index in range(_at_most(number)):
            indexed = job.spec.completionMode == "Indexed"
            self._create_pod(job_pods.new_pod(job, index if indexed else None), job, expansion)

    def _cron_job(self, document: Document, expansion: Expansion) -> None:
        template = document["spec"]["jobTemplate"]
        metadata = {"generateName": f"{document['metadata']['name']}-", "namespace": document["metadata"]["namespace"]}
        job = {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": template["spec"]}
        self._expand(job, expansion)

    # Pods and their claims

    def _create_pod(self, pod: Any, owner: Any, expansion: Expansion) -> None:
        document = _document(POD, pod, owner.metadata.namespace)
        self._add_pod(self._create(document), expansion)

    def _add_pod(self, document: Document, expansion: Expansion) -> None:
        """Add a created pod, with the claims that controllers make for it."""
        pod: Any = convert(POD.type, document)
        namespace = pod.metadata.namespace
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is not None:
                claim = {
                    "metadata": {
                        "name": claim_name(pod.metadata.name, volume),
                        "ownerReferences": [msgspec.to_builtins(controller_reference(POD, pod))],
                    },
                    "spec": msgspec.to_builtins(volume.ephemeral.volumeClaimTemplate.spec),
                }
                self._create_claim(PERSISTENT_VOLUME_CLAIM, claim, namespace, expansion)
        statuses = []
        for reference in pod.spec.resourceClaims or ():
            template = self._claim_template(namespace, reference.resourceClaimTemplateName)
            if template is not None:
                made = claim_of_template(template, pod, reference.name)
                created = self._create_claim(RESOURCE_CLAIM, made, namespace, expansion)
                statuses.append({"name": reference.name, "resourceClaimName": created["metadata"]["name"]})
        if statuses:
            document["status"] = {**(document.get("status") or {}), "resourceClaimStatuses": statuses}
        expansion.pods.append(document)

    def _claim_template(self, namespace: str, name: str | None) -> Any:
        if name is None:
            return None
        storage = self._server.storage
        resource = storage.served.of_kind(RESOURCE_CLAIM_TEMPLATE.api_version, RESOURCE_CLAIM_TEMPLATE.kind)
        assert resource is not None
        try:
            return convert(RESOURCE_CLAIM_TEMPLATE.type, storage.load(resource, namespace, name))
        except StatusError:  # the pod then waits for its claim, as it does in a cluster
            return None

    def _create_claim(self, kind: Kind, claim: Any, namespace: str, expansion: Expansion) -> Document:
        created = self._create(_document(kind, claim, namespace))
        expansion.objects.append(created)
        return created

    @property
    def _known_claims(self) -> Mapping[str, bytes]:
        return self._snapshot.of_kind(PERSISTENT_VOLUME_CLAIM)

    # The API server

    def _create(self, document: Document) -> Document:
        """Create an object as the API server does. Custom resources stay as they are. Raises StatusError."""
        storage = self._server.storage
        api_version, name = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        resource = storage.served.of_kind(api_version, name)
        if resource is None:
            return document
        metadata = dict(document.get("metadata") or {})
        metadata.pop("resourceVersion", None)
        given = accept(resource.schema, {**document, "metadata": metadata}, FieldValidation("Ignore"))
        namespace = given["metadata"].setdefault("namespace", "default") if resource.kind.namespaced else ""
        if namespace:
            self._ensure(NAMESPACE, namespace)
        spec = given.get("spec") or {}
        if name in {"Pod", "PodGroup"} and spec.get("priority") and not spec.get("priorityClassName"):
            spec["priorityClassName"] = f"priority-{spec['priority']}"  # only a class can set a priority
        if name in {"Pod", "PodGroup"} and spec.get("priority") and spec.get("priorityClassName"):
            self._ensure(PRIORITY_CLASS, spec["priorityClassName"], value=spec["priority"])
        created = storage.decode(resource, storage.create(resource, namespace, given))
        created["metadata"] |= {name: metadata[name] for name in ("uid", "creationTimestamp") if metadata.get(name)}
        if status := document.get("status"):
            created["status"] = {**(created.get("status") or {}), **status}
        return {**created, "apiVersion": api_version, "kind": name}

    def _ensure(self, kind: Kind, name: str, **fields: Any) -> None:
        if name not in self._server.store.collection(kind.resource).objects:
            self._server.load(
                [{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **fields}]
            )

    def _restore(self, document: Document) -> None:
        try:
            self._create(document)
        except StatusError:  # it exists in every cluster, or the snapshot's server is older and less strict
            return


def _at_most(number: int) -> int:
    if number > MOST_PODS:
        raise QuestionError(f"{number:,} pods of one workload: expected at most {MOST_PODS:,}")
    return number


def _document(kind: Kind, obj: Any, namespace: str) -> Document:
    document: Document = msgspec.json.decode(encode(obj))
    metadata = {**document["metadata"], "namespace": namespace}
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _with(obj: Mapping[str, Any] | None, name: str, entries: Mapping[str, str]) -> Document:
    return {**(obj or {}), name: {**((obj or {}).get(name) or {}), **entries}}


def _kind_of(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document.get("apiVersion")), str(document.get("kind"))


def _name_of(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata") or {}
    return f"{document.get('kind')} {metadata.get('name') or metadata.get('generateName') or 'without a name'}"


_KINDS = {(kind.api_version, kind.kind): kind for kind in KINDS}
_NEEDED_FIRST = {(kind.api_version, kind.kind) for kind in _ADMISSION}
