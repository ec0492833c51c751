"""What the controllers of well-known custom resources make of them: Pods, Jobs and StatefulSets.

JobSet (pkg/controllers/jobset_controller.go), LeaderWorkerSet (pkg/controllers/leaderworkerset_controller.go and
pod_controller.go), KubeRay (ray-operator/controllers/ray/common/pod.go), and the training jobs of Kubeflow. Only what
decides about nodes is mirrored: templates, numbers, names and labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import kind_named
from bayplan.answers.snapshots.older_versions import NEWER
from bayplan.answers.snapshots.rights import EFFECTS
from bayplan.core.api.kinds import JOB, POD, STATEFUL_SET, Kind
from bayplan.core.api.objects import Document

_JOB_SET = "jobset.sigs.k8s.io"
_LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io"
_TRAINING = "training.kubeflow.org"
_AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
"""What KubeRay's autoscaler requests beside the head, if the cluster doesn't say."""
_NO_LIMIT = 2**31 - 1
"""KubeRay's default for maxReplicas."""
_SUBMITTER = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
"""What the pod requests that submits a RayJob."""


def header_of(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the `apiVersion` and the `kind` of a document."""
    return str(document.get("apiVersion")), str(document.get("kind"))


def children(document: Document) -> Iterator[Document] | None:
    """Yield the objects that the controller of a custom resource creates; None if it isn't known."""
    api_version, kind = header_of(document)
    expand = _KNOWN.get((api_version.partition("/")[0], kind))
    if expand is None:
        return None
    spec = document.get("spec")
    return expand(document, spec) if isinstance(spec, dict) and not _suspended(spec) else iter(())


def rules_not_run(document: Document) -> Iterator[str]:
    """Yield the rules about nodes that a custom resource sets, and that only its controller carries out.

    The order in which its parts start is none of them: what fits at once fits in any order.
    """
    api_version, kind = header_of(document)
    for name, meaning in _RULES.get((api_version.partition("/")[0], kind), {}).items():
        value = next((given[name] for given in _annotations(document) if name in given), None)
        if value is not None:
            yield f"{name}={value} isn't run: {meaning.format(value)}"


def _annotations(document: Document) -> Iterator[dict[str, Any]]:
    """The annotations of a custom resource, and of the templates of its parts."""
    yield _dict(_dict(document.get("metadata")).get("annotations"))
    spec = _dict(document.get("spec"))
    for group in _list(spec.get("replicatedJobs")):
        job = _dict(group.get("template"))
        pods = _dict(_dict(job.get("spec")).get("template"))
        for template in (job, pods):
            yield _dict(_dict(template.get("metadata")).get("annotations"))


_EXCLUSIVE = "it gives each {} a topology domain ({{}}) of its own"
_RULES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("jobset.x-k8s.io", "JobSet"): {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": _EXCLUSIVE.format("job"),
        "alpha.jobset.sigs.k8s.io/node-selector": "it selects the nodes that were labelled for each job",
    },
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): {
        f"{_LEADER_WORKER_SET}/exclusive-topology": _EXCLUSIVE.format("group"),
        f"{_LEADER_WORKER_SET}/subgroup-exclusive-topology": _EXCLUSIVE.format("subgroup"),
    },
}
"""(group, kind), in any version -> the annotations whose rules aren't mirrored, and what they do"""


def has_pods(document: Document) -> bool:
    """Whether a custom resource may have pods: all but those that plugins read, such as PodGroups."""
    header = header_of(document)
    try:
        return header not in NEWER and kind_named(*header) not in EFFECTS
    except SnapshotError:
        return True


def _suspended(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("suspend") or _dict(spec.get("runPolicy")).get("suspend"))


def _job_set(owner: Document, spec: Mapping[str, Any]) -> Iterator[Document]:
    """A Job for each replica of each replicated job. Its pods are indexed."""
    for group in _list(spec.get("replicatedJobs")):
        for index in range(_number(group.get("replicas"), 1)):
            labels = {
                f"{_JOB_SET}/jobset-name": _name(owner),
                f"{_JOB_SET}/replicatedjob-name": str(group.get("name")),
                f"{_JOB_SET}/replicatedjob-replicas": str(_number(group.get("replicas"), 1)),
                f"{_JOB_SET}/job-index": str(index),
            }
            template = _dict(group.get("template"))
            job = dict(_dict(template.get("spec")))
            job.setdefault("completionMode", "Indexed")
            pods = _labelled(job.get("template"), labels)
            pods["spec"].setdefault("restartPolicy", "OnFailure")
            yield _child(owner, JOB, f"{_name(owner)}-{group.get('name')}-{index}", {**job, "template": pods}, labels)


def _leader_worker_set(owner: Document, spec: Mapping[str, Any]) -> Iterator[Document]:
    """A StatefulSet of leaders, and one of workers for each leader."""
    template = _dict(spec.get("leaderWorkerTemplate"))
    groups, size = _number(spec.get("replicas"), 1), _number(template.get("size"), 1)
    labels = {f"{_LEADER_WORKER_SET}/name": _name(owner)}
    leader = template.get("leaderTemplate") or template.get("workerTemplate")
    leaders = {**labels, f"{_LEADER_WORKER_SET}/worker-index": "0"}
    yield _stateful_set(owner, _name(owner), leaders, leader, groups)
    for group in range(groups if size > 1 else 0):
        workers = {**labels, f"{_LEADER_WORKER_SET}/group-index": str(group)}
        name = f"{_name(owner)}-{group}"
        yield _stateful_set(owner, name, workers, template.get("workerTemplate"), size - 1, start=1)


def _stateful_set(
    owner: Document, name: str, labels: Mapping[str, str], template: Any, replicas: int, start: int = 0
) -> Document:
    spec = {
        "replicas": replicas,
        "serviceName": _name(owner),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": dict(labels)},
        "template": _labelled(template, labels),
        "ordinals": {"start": start},
    }
    return _child(owner, STATEFUL_SET, name, spec, labels)


def _ray_cluster(owner: Document, spec: Mapping[str, Any]) -> Iterator[Document]:
    """The head, and the workers of each group: replicas within their limits, times the hosts of a replica."""
    head = _labelled(_dict(spec.get("headGroupSpec")).get("template"), _of_ray(owner, "head", "headgroup"))
    if spec.get("enableInTreeAutoscaling"):
        resources = _dict(spec.get("autoscalerOptions")).get("resources")
        resources = resources or {"requests": _AUTOSCALER, "limits": _AUTOSCALER}
        sidecar = {"name": "autoscaler", "image": "autoscaler", "resources": resources}
        head["spec"]["containers"] = [*_list(head["spec"].get("containers")), sidecar]
    yield _pod(owner, f"{_name(owner)}-head", head)
    for group in _list(spec.get("workerGroupSpecs")):
        least = _number(group.get("minReplicas"), 0)
        most = _number(group.get("maxReplicas"), _NO_LIMIT)
        number = min(max(_number(group.get("replicas"), least), least), most)
        number = 0 if group.get("suspend") else number * _number(group.get("numOfHosts"), 1)
        name = str(group.get("groupName"))
        template = _labelled(group.get("template"), _of_ray(owner, "worker", name))
        for index in range(number):
            yield _pod(owner, f"{_name(owner)}-{name}-worker-{index}", template)


def _ray_job(owner: Document, spec: Mapping[str, Any]) -> Iterator[Document]:
    """The cluster, and the pod that submits the job to it."""
    yield from _ray_cluster(owner, _dict(spec.get("rayClusterSpec")))
    if spec.get("submissionMode") not in {None, "K8sJobMode"}:
        return
    submitter = {"name": "submitter", "image": "submitter", "resources": _SUBMITTER}
    own = _dict(spec.get("submitterPodTemplate"))
    yield _pod(owner, _name(owner), own or {"spec": {"restartPolicy": "Never", "containers": [submitter]}})


def _of_ray(owner: Document, kind: str, group: str) -> dict[str, str]:
    labels = {"cluster": _name(owner), "node-type": kind, "group": group, "is-ray-node": "yes"}
    return {f"ray.io/{key}": value for key, value in labels.items()}


def _training_job(field: str) -> Callable[[Document, Mapping[str, Any]], Iterator[Document]]:
    """A pod for each replica of each type: `pytorchReplicaSpecs: {Master: {replicas: 1, template: ...}}`."""

    def expand(owner: Document, spec: Mapping[str, Any]) -> Iterator[Document]:
        for role, replicas in _dict(spec.get(field)).items():
            for index in range(_number(_dict(replicas).get("replicas"), 1)):
                labels = {
                    f"{_TRAINING}/job-name": _name(owner),
                    f"{_TRAINING}/replica-type": role.lower(),
                    f"{_TRAINING}/replica-index": str(index),
                }
                template = _labelled(_dict(replicas).get("template"), labels)
                policy = _dict(replicas).get("restartPolicy")
                template["spec"]["restartPolicy"] = "Never" if policy in {None, "ExitCode"} else policy
                yield _pod(owner, f"{_name(owner)}-{role.lower()}-{index}", template)

    return expand


_KNOWN: Mapping[tuple[str, str], Callable[[Document, Mapping[str, Any]], Iterator[Document]]] = {
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayJob"): _ray_job,
    ("ray.io", "RayService"): lambda owner, spec: _ray_cluster(owner, _dict(spec.get("rayClusterConfig"))),
    ("kubeflow.org", "PyTorchJob"): _training_job("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _training_job("tfReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _training_job("mpiReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _training_job("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _training_job("paddleReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): _training_job("jaxReplicaSpecs"),
    ("kubeflow.org", "MXJob"): _training_job("mxReplicaSpecs"),
}
"""(group, kind), in any version -> how to read its pods"""


def _child(owner: Document, kind: Kind, name: str, spec: Mapping[str, Any], labels: Mapping[str, str]) -> Document:
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": _name(owner),
        "uid": metadata.get("uid") or f"{owner['kind']}-{_name(owner)}",
        "controller": True,
    }
    namespace = metadata.get("namespace") or "default"
    made = {"name": name, "namespace": namespace, "labels": dict(labels), "ownerReferences": [reference]}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": made, "spec": spec}


def _pod(owner: Document, name: str, template: Mapping[str, Any]) -> Document:
    pod = _child(owner, POD, name, _dict(template.get("spec")), {})
    metadata = _dict(template.get("metadata"))
    pod["metadata"] |= {field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)}
    return pod


def _labelled(template: Any, labels: Mapping[str, str]) -> dict[str, Any]:
    """A copy of a pod template with more labels."""
    given = _dict(template)
    metadata = _dict(given.get("metadata"))
    known = {**_dict(metadata.get("labels")), **labels}
    return {"metadata": {**metadata, "labels": known}, "spec": dict(_dict(given.get("spec")))}


def _name(document: Mapping[str, Any]) -> str:
    return str(document["metadata"].get("name"))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and value >= 0 else default
