"""The pods that the controllers of custom resources make: known ones are expanded, others are named."""

import yaml
from click.testing import CliRunner
from small_manifests import node
from tests.support.tables import cases

from bayplan.faces.cli import main
from bayplan.insight import Insight, Snapshot


def template(cpu="1", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], **spec}}


def custom(api_version, kind, spec, name="x"):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def job_set(**spec):
    job = {"spec": {"parallelism": 2, "completions": 2, "template": template()}}
    return custom(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": "w", "replicas": 2, "template": job}], **spec},
    )


def leader_worker_set(**leader):
    pods = {"size": 3, "workerTemplate": template(), **leader}
    return custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": pods})


def ray(**group):
    workers = {"groupName": "g", "replicas": 2, "minReplicas": 0, "maxReplicas": 3, "template": template(), **group}
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [workers]}


def training(field, **roles):
    specs = {role: {"replicas": number, "template": template()} for role, number in roles.items()}
    return {field: specs}


TRAINING = {
    "PyTorchJob": ("pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
    "TFJob": ("tfReplicaSpecs", {"Chief": 1, "PS": 2, "Worker": 3}),
    "MPIJob": ("mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}),
    "XGBoostJob": ("xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
    "PaddleJob": ("paddleReplicaSpecs", {"Worker": 2}),
    "JAXJob": ("jaxReplicaSpecs", {"Worker": 2}),
}
KNOWN = {
    "JobSet": (job_set(), ["x-w-0-0-*", "x-w-0-1-*", "x-w-1-0-*", "x-w-1-1-*"]),
    "suspended JobSet": (job_set(suspend=True), []),
    "LeaderWorkerSet": (leader_worker_set(), ["x-0", "x-0-1", "x-0-2", "x-1", "x-1-1", "x-1-2"]),
    "leaders of their own": (leader_worker_set(leaderTemplate=template("2"), size=1), ["x-0", "x-1"]),
    "RayCluster": (custom("ray.io/v1", "RayCluster", ray()), ["x-g-worker-0", "x-g-worker-1", "x-head"]),
    "RayCluster above its limit": (
        custom("ray.io/v1", "RayCluster", ray(replicas=9)),
        ["x-g-worker-0", "x-g-worker-1", "x-g-worker-2", "x-head"],
    ),
    "RayCluster of several hosts": (
        custom("ray.io/v1alpha1", "RayCluster", ray(replicas=1, numOfHosts=2)),
        ["x-g-worker-0", "x-g-worker-1", "x-head"],
    ),
    "RayJob": (custom("ray.io/v1", "RayJob", {"rayClusterSpec": ray(replicas=1)}), ["x", "x-g-worker-0", "x-head"]),
    "RayService": (custom("ray.io/v1", "RayService", {"rayClusterConfig": ray(replicas=0)}), ["x-head"]),
    **{
        kind: (
            custom("kubeflow.org/v1", kind, training(field, **roles)),
            sorted(f"x-{role.lower()}-{index}" for role, number in roles.items() for index in range(number)),
        )
        for kind, (field, roles) in TRAINING.items()
    },
}


@cases("document, names", KNOWN)
def test_known_custom_workload_leads_to_pods(document, names):
    answer = Insight(Snapshot.of([node("a", "40")])).fit([document])
    found = sorted(each.pod.removeprefix("default/") for each in answer.pods)

    patterns = [name.removesuffix("*") for name in names]
    assert [name if name == pattern else name[:-5] for name, pattern in zip(found, patterns, strict=True)] == patterns
    assert all(each.outcome == "placed" for each in answer.pods)


def test_autoscaler_of_ray_needs_room_beside_the_head():
    document = custom("ray.io/v1", "RayCluster", {"enableInTreeAutoscaling": True, **ray(replicas=0)})

    assert Insight(Snapshot.of([node("a", "1.5")])).fit([document]).fits
    assert not Insight(Snapshot.of([node("a", "1.4")])).fit([document]).fits


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **template()}
KAFKA = custom("kafka.strimzi.io/v1beta2", "Kafka", {}, "k")
SPARK = custom("sparkoperator.k8s.io/v1beta2", "SparkApplication", {}, "s")
GENERATED = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": {"generateName": "t-"}}
GROUP = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
COMMANDS = {
    "only unknown": ([KAFKA, SPARK], 2, "the pods of Kafka k (kafka.strimzi.io/v1beta2), SparkApplication s (sparkop"),
    "with a pod": ([POD, KAFKA], 0, "not decided: only their controllers know the pods of Kafka k"),
    "generated name": ([POD, GENERATED], 0, "not decided: only their controllers know the pods of Training t-"),
    "no kind at all": ([custom("apps/v1", "Deploiment", {}), POD], 1, "there is no kind Deploiment in apps/v1"),
    "a pod group": ([GROUP], 0, "the manifests have no pods"),
    "too many": (
        [custom("ray.io/v1", "RayCluster", ray(replicas=10**8, maxReplicas=10**9))],
        2,
        "the limit of pods is",
    ),
    "no spec": ([custom("ray.io/v1", "RayCluster", None)], 0, "the manifests have no pods"),
}


@cases("manifests, status, text", COMMANDS)
def test_unknown_custom_resource_is_named(tmp_path, manifests, status, text):
    for name, objects in (("cluster", [node("a")]), ("new", manifests)):
        (tmp_path / name).write_text(yaml.safe_dump_all(objects))
    asked = ["fit", "-f", str(tmp_path / "new"), "--from", str(tmp_path / "cluster"), "-o", "wide"]
    result = CliRunner().invoke(main, asked)

    assert (result.exit_code, text in result.output) == (status, True), result.output


EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
OF_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def annotated(document, name):
    return {**document, "metadata": {**document["metadata"], "annotations": {name: "rack"}}}


def exclusive_part():
    made = job_set()
    part = made["spec"]["replicatedJobs"][0]
    part["template"] = {**part["template"], "metadata": {"annotations": {EXCLUSIVE: "rack"}}}
    return made


@cases(
    "document, rule",
    {
        "all jobs": (annotated(job_set(), EXCLUSIVE), f"JobSet x: {EXCLUSIVE}=rack isn't run: it gives each job"),
        "one job": (exclusive_part(), f"JobSet x: {EXCLUSIVE}=rack isn't run"),
        "groups": (annotated(leader_worker_set(), OF_GROUPS), f"LeaderWorkerSet x: {OF_GROUPS}=rack isn't run"),
        "subgroups": (
            annotated(leader_worker_set(), OF_GROUPS.replace("/", "/subgroup-")),
            "LeaderWorkerSet x: leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology=rack isn't run",
        ),
        "none": (job_set(), ""),
    },
)
def test_rules_that_are_not_run_are_named(document, rule):
    answer = Insight(Snapshot.of([node("a", "20")])).fit([document])

    assert answer.fits is not bool(rule)
    assert [each.startswith(rule) for each in answer.not_run] == [True] * bool(rule)
    assert rule in answer.text(width=500)
