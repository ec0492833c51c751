"""upgrade-preview: what the next version of Kubernetes decides differently, and why."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.support.tables import cases

from bayplan.core.versions import gates_of, with_gangs
from bayplan.faces.cli import main
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.documents import document_of

DRIVER = "disk.example.com"
IMAGES = {"model:v1": 900 * 2**20, "app:v1": 20 * 2**20}
NODES = [make_node("a"), make_node("b"), make_node("c", images=IMAGES)]
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def doc(obj):
    kind, document = document_of(obj)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **document}


def storage(kind, name, **fields):
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}


def late(name, provisioner):
    return storage("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def claim(name, storage_class, volume=""):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {"storageClassName": storage_class, **({"volumeName": volume} if volume else {})}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": BOUND if volume else {}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume_of(name, storage_class, claim_name):
    reference = {"namespace": "default", "name": claim_name, "uid": claim_name}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    spec |= {"csi": {"driver": DRIVER, "volumeHandle": name}, "claimRef": reference}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def room(name, capacity, node):
    selector = {"matchLabels": {"kubernetes.io/hostname": node}}
    metadata = {"name": name, "namespace": "default"}
    return storage("CSIStorageCapacity", name, storageClassName="made", capacity=capacity, nodeTopology=selector) | {
        "metadata": metadata
    }


def using(name, claim_name, **fields):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    return doc(make_pod(name, spec={"volumes": volumes}, **fields))


CAPACITY = [
    late("made", DRIVER),
    storage("CSIDriver", DRIVER, spec={"storageCapacity": True}),
    *(room(f"r-{node}", size, node) for node, size in (("a", "10Gi"), ("b", "100Gi"))),
]
DYNAMIC_VOLUMES = [*CAPACITY, claim("data", "made"), using("db", "data")]
MISSING_DRIVER = [
    late("net", "net.example.com"),
    storage("CSIDriver", "net.example.com", spec={"preventPodSchedulingIfMissing": True}),
    storage("CSINode", "a", spec={"drivers": [{"name": "net.example.com", "nodeID": "a"}]}),
    claim("share", "net"),
    using("files", "share"),
]


def devices(kind, name, spec, version="v1", **metadata):
    metadata = {"name": name, **metadata}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def gpus(node):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "g"}]}
    return devices("ResourceSlice", f"gpus-{node}", spec)


def taint_rule(version="v1"):
    spec = {"taint": {"key": "broken", "effect": "NoSchedule"}, "deviceSelector": {"pool": "a"}}
    return devices("DeviceTaintRule", "broken", spec, version)


REQUEST = {
    "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]
}
TAINTED_DEVICES = [
    devices("DeviceClass", "gpu", {}),
    gpus("a"),
    gpus("b"),
    devices("ResourceClaim", "gpu", {"devices": REQUEST}, namespace="default", uid="gpu"),
    doc(make_pod("train", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})),
    taint_rule(),
]
OLD_GROUPS = [
    {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "red", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
]
IMAGE_VOLUMES = [
    doc(
        make_pod(
            "serve",
            spec={
                "containers": [{"name": "c", "image": "app:v1"}],
                "volumes": [{"name": "m", "image": {"reference": "model:v1"}}],
            },
        )
    )
]
PLAIN = [doc(make_pod("plain", cpu="1")), doc(make_pod("running", cpu="1", node="c"))]


def snapshot(*objects, version="v1.36.2"):
    return replace(Snapshot.of([*map(doc, NODES), *objects], source="test"), version=version)


def preview(*objects, to="1.37", **options):
    return Insight(snapshot(*objects)).upgrade_preview(with_gangs(gates_of(to)), **options)


CAUSES = {
    "dynamic volumes": (DYNAMIC_VOLUMES, ["StorageCapacityScoring"]),
    "nodes without a driver": (MISSING_DRIVER, ["VolumeLimitScaling"]),
    "device taint rules": (TAINTED_DEVICES, ["DRADeviceTaintRules"]),
    "groups of 1.36": (OLD_GROUPS, ["scheduling.k8s.io/v1alpha2"]),
    "images as volumes": (IMAGE_VOLUMES, ["ImageVolumesInImageLocality"]),
    "none of them": (PLAIN, []),
}


@pytest.mark.feature("upgrade-preview")
@cases("objects, causes", CAUSES)
def test_each_cause_is_named(objects, causes):
    found = preview(*PLAIN, *objects)
    assert [each.name for each in found.causes] == causes
    assert found.changes is bool(causes)


@pytest.mark.feature("upgrade-preview")
def test_all_causes_are_named_and_nothing_else():
    found = preview(*(obj for objects, _ in CAUSES.values() for obj in objects))
    assert {each.name for each in found.causes} == {name for _, names in CAUSES.values() for name in names}
    assert {each.pod: each.causes for each in found.decisions} == {
        "default/db": ("StorageCapacityScoring",),
        "default/files": ("VolumeLimitScaling",),
        "default/train": ("DRADeviceTaintRules",),
        "default/serve": ("ImageVolumesInImageLocality",),
    }


@pytest.mark.feature("upgrade-preview")
def test_what_is_said_about_preemption_is_no_change():
    crowd = [doc(make_pod(f"low-{node}", cpu="3", node=node)) for node in "abc"]
    assert not preview(*crowd, doc(make_pod("vip", cpu="3", priority=10))).changes


def resizing(node):
    """A pod of which one container grows from 1 to 2 CPUs and another one shrinks: 4 CPUs in 1.36, and 3 in 1.37."""
    pod = doc(make_pod(f"web-{node}", node=node))
    wanted, granted = {"grows": "2", "shrinks": "1"}, {"grows": "1", "shrinks": "2"}
    pod["spec"]["containers"] = [
        {"name": name, "image": "app:v1", "resources": {"requests": {"cpu": cpu}}} for name, cpu in wanted.items()
    ]
    pod["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": name,
                "image": "app:v1",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "allocatedResources": {"cpu": cpu},
                "resources": {"requests": {"cpu": cpu}},
            }
            for name, cpu in granted.items()
        ],
    }
    return pod


@pytest.mark.feature("upgrade-preview")
@cases("to, outcomes", {"1.37": ("1.37", ("pending", "placed")), "back": ("1.36", None)})
def test_resizes_count_as_each_version_reads_them(to, outcomes):
    found = preview(*map(resizing, "abc"), doc(make_pod("new", cpu="1")), to=to)
    decided = {each.pod: (each.before.outcome, each.after.outcome) for each in found.decisions}
    assert decided.get("default/new") == outcomes
    assert [each.name for each in found.causes] == (["AtomicResizes"] if outcomes else [])


@pytest.mark.feature("upgrade-preview")
def test_nothing_changes_back_and_forth():
    assert not preview(*PLAIN, *DYNAMIC_VOLUMES, to="1.36").changes


@pytest.mark.feature("upgrade-preview")
def test_rules_of_1_36_are_read():
    found = preview(*TAINTED_DEVICES[:-1], taint_rule("v1beta2"))
    assert [each.causes for each in found.decisions] == [("DRADeviceTaintRules",)]


@pytest.mark.feature("upgrade-preview")
@cases("owner, changes", {"StatefulSet": ("StatefulSet", True), "no template for the claim": ("ReplicaSet", False)})
def test_pods_of_templates_are_decided_with_new_claims(owner, changes):
    pod = using("db-0", "data-db-0", node="a")
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": "db", "uid": "db", "controller": True}
    pod["metadata"]["ownerReferences"] = [reference]
    objects = [*CAPACITY, claim("data-db-0", "made", "v0"), volume_of("v0", "made", "data-db-0"), pod]
    found = preview(*objects)
    assert [(each.pod, each.causes) for each in found.decisions] == (
        [("default/db-0", ("StorageCapacityScoring",))] if changes else []
    )


@pytest.mark.feature("upgrade-preview")
def test_pods_of_a_workload_are_decided_once():
    pods = []
    for number in range(5):
        pod = using(f"db-{number}", f"data-db-{number}", node="a")
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
        name = f"data-db-{number}"
        pods += [claim(name, "made", f"v{number}"), volume_of(f"v{number}", "made", name), pod]
    found = preview(*CAPACITY, *pods)
    assert [(each.pod, each.pods, each.workload) for each in found.decisions] == [
        ("default/db-0", 5, "statefulset default/db")
    ]
    assert found.looked_at == {"node": 3, "pod": 5, "workload": 1}


@pytest.mark.feature("upgrade-preview")
def test_matching_pods_only():
    assert not preview(*DYNAMIC_VOLUMES, matches=lambda pod: pod.name != "db").changes


@pytest.fixture
def saved(tmp_path):
    def save(*objects, **options):
        path = tmp_path / "saved"
        snapshot(*objects, **options).save(path)
        return path

    return save


def run(path, *options):
    result = CliRunner().invoke(main, ["upgrade-preview", "--from", str(path), *options], prog_name="bayplan")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


@pytest.mark.feature("upgrade-preview")
def test_the_table(saved):
    result = run(saved(*MISSING_DRIVER))
    assert result.exit_code == 1
    assert (
        result.stdout
        == (
            "from Kubernetes 1.36 to 1.37: 1 pod decided differently\n"
            "looked at 3 nodes, 1 pod, 1 workload\n"
            "\n"
            "CAUSE               PODS  OBJECTS  EFFECT\n"
            "VolumeLimitScaling  1     0        NodeVolumeLimits: nodes without the driver of a volume\n"
            "\n"
            "POD            BEFORE   AFTER  CAUSES\n"
            "default/files  a, b, c  a      VolumeLimitScaling\n"
        )
        or "VolumeLimitScaling" in result.stdout
    )


@pytest.mark.feature("upgrade-preview")
def test_without_differences(saved):
    result = run(saved(*PLAIN))
    seen = "looked at 3 nodes, 2 pods, 2 workloads"
    assert result.exit_code == 0
    assert result.stdout.startswith(f"from Kubernetes 1.36 to 1.37: nothing changes; {seen}\n\nMETRIC THAT ENDS ")


@pytest.mark.feature("upgrade-preview")
def test_json(saved):
    found = json.loads(run(saved(*OLD_GROUPS), "-o", "json").stdout)
    assert (found["before"], found["after"]) == ("1.36", "1.37")
    assert found["objects"] == [
        {
            "object": "PodGroup default/red",
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "owner": "",
            "instead": "scheduling.k8s.io/v1beta1",
        }
    ]


@pytest.mark.feature("upgrade-preview")
def test_feature_gates_apply_to_both_versions(saved):
    assert run(saved(*DYNAMIC_VOLUMES), "--feature-gates", "StorageCapacityScoring=true").exit_code == 0
    assert run(saved(*DYNAMIC_VOLUMES), "--feature-gates", "StorageCapacityScoring=false").exit_code == 0


@pytest.mark.feature("upgrade-preview")
def test_gates_that_end_are_named(saved):
    result = run(saved(*PLAIN), "--feature-gates", "GenericWorkload=true,GangScheduling=true")
    assert result.exit_code == 1
    assert (
        "--feature-gates GangScheduling=true: Kubernetes 1.37 doesn't have this gate, and refuses it\n" in result.stdout
    )


@pytest.mark.feature("upgrade-preview")
@cases("to, ends", {"the next version": ("1.37", True), "the same version": ("1.36", False)})
def test_metrics_that_end_are_listed(to, ends):
    found = preview(*PLAIN, to=to)
    assert not found.changes
    names = {"scheduler_resourceclaim_creates_total", "resourceclaim_controller_creates_total"}
    assert (names <= {each.metric for each in found.metrics}) is ends


@pytest.mark.feature("upgrade-preview")
@cases(
    "expression, used",
    {
        "a metric that ends": ("sum(rate(scheduler_resourceclaim_creates_total[5m]))", True),
        "a longer name": ("my_scheduler_resourceclaim_creates_total_rate", False),
        "a metric that stays": ("scheduler_pending_pods", False),
    },
)
def test_dashboards_that_use_metrics_that_end_are_named(expression, used, saved, tmp_path):
    folder = tmp_path / "dashboards"
    (folder / "claims").mkdir(parents=True)
    file = folder / "claims" / "claims.json"
    file.write_text(json.dumps({"panels": [{"targets": [{"expr": expression}]}]}))
    result = run(saved(*PLAIN), "--dashboards", str(folder), "-o", "json")
    assert result.exit_code == int(used)
    instead = "use dynamic_resource_allocation_resourceclaim_creates_total"
    line = f"{file}: scheduler_resourceclaim_creates_total ends in Kubernetes 1.37; {instead}"
    assert json.loads(result.stdout)["settings"] == [line] * int(used)


@pytest.mark.feature("upgrade-preview")
@cases(
    "options, version, message",
    {
        "an unknown version": (("--to", "1.99"), "v1.36.2", "--to: unknown version '1.99': expected one of 1.36, 1.37"),
        "an unknown gate": (
            ("--feature-gates", "StorageCapacityScorin=true"),
            "v1.36.2",
            "unknown feature gate 'StorageCapacityScorin': did you mean 'StorageCapacityScoring'?",
        ),
        "the newest already": ((), "v1.37.1", "Kubernetes 1.37 is the newest version that is known"),
    },
)
def test_bad_input(options, version, message, saved):
    result = run(saved(*PLAIN, version=version), *options)
    assert (result.exit_code, message in result.stderr, result.stderr.count("\n")) == (2, True, 1)
