"""The files that people have: dumps, archives and exports of other tools."""

import gzip
import io
import json
import sys
import tarfile

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from tests.insight.bayplan_documents import document
from tests.support.tables import cases

from bayplan.faces.cli import main
from bayplan.insight import Insight, Snapshot, SnapshotError

NODE = document("Node", "a", namespace="", status={"allocatable": {"cpu": "4"}})
POD = document("Pod", "web", spec={"containers": [{"name": "c", "image": "x"}]})
DEPLOYMENT = document("Deployment", "web", "apps/v1", spec={"replicas": 1})
FOUND = ["Deployment", "Node", "Pod"]


def typed(obj):
    items = [{field: value for field, value in obj.items() if field not in {"apiVersion", "kind"}}]
    return {"apiVersion": obj["apiVersion"], "kind": f"{obj['kind']}List", "metadata": {}, "items": items}


def indented(obj):
    return json.dumps(obj, indent=4) + "\n"


EVENTS = {"apiVersion": "v1", "kind": "EventList", "items": []}
LOGS = """==== START logs for container c of pod default/web ====
{"level": "info", "kind": "Pod"}
==== not the end ====
---
[not JSON
==== END logs for container c of pod default/web ====
==== START logs for container d of pod default/web ====
no line break at the end==== END logs for container d of pod default/web ====
"""
LISTS = [*map(typed, (NODE, DEPLOYMENT, POD)), EVENTS]
DUMP = "".join(map(indented, LISTS)) + LOGS + indented(EVENTS)
SIMULATOR = {
    "pods": [typed(POD)["items"][0]],
    "nodes": [NODE],
    "pvs": [],
    "pvcs": None,
    "storageClasses": [],
    "priorityClasses": [],
    "schedulerConfig": {"profiles": []},
    "namespaces": [],
}
GONE = document("Job", "gone", "batch/v1")
TRACE = {
    "version": 2,
    "config": {"trackedObjects": {}},
    "events": [
        {"ts": 1, "applied_objs": [NODE, POD, GONE], "deleted_objs": []},
        {"ts": 2, "applied_objs": [DEPLOYMENT], "deleted_objs": [GONE]},
    ],
    "index": {},
    "pod_lifecycles": {},
}
LIST = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD, DEPLOYMENT]}).encode()


def tar(mode, files):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


ROOT = "must-gather/quay-io-openshift-release-dev-sha256-1"
MUST_GATHER = {
    "must-gather/version": b"v4.20",
    f"{ROOT}/timestamp": b"2026",
    f"{ROOT}/cluster-scoped-resources/core/nodes/a.yaml": b"---\n" + yaml.safe_dump(NODE).encode(),
    f"{ROOT}/namespaces/default/core/pods.yaml": b"---\n" + yaml.safe_dump(typed(POD)).encode(),
    f"{ROOT}/namespaces/default/pods/web/web.yaml": yaml.safe_dump(POD).encode(),
    f"{ROOT}/namespaces/default/apps/deployments.yaml": yaml.safe_dump(typed(DEPLOYMENT)).encode(),
    f"{ROOT}/namespaces/default/pods/web/c/c/logs/current.log": b"==== START logs",
    f"{ROOT}/audit_logs/audit.log.gz": gzip.compress(b"{}"),
    **{f"{ROOT}/etcd_info/{number}.json": b'[{"a": 1}]' for number in range(9)},
}

FILES = {
    "cluster-info dump": DUMP.encode(),
    "cluster-info dump that was cut off in the logs": (DUMP + LOGS[:120]).encode(),
    "gzipped list": gzip.compress(LIST),
    "list in UTF-16": LIST.decode().encode("utf-16"),
    "dump in UTF-16": DUMP.replace("\n", "\r\n").encode("utf-16"),
    "gzipped dump": gzip.compress(DUMP.encode()),
    "SimKube": json.dumps(TRACE).encode(),
    "SimKube in msgpack": msgspec.msgpack.encode(TRACE),
    "must-gather in tar": tar("w", MUST_GATHER),
    "must-gather in tar.gz": tar("w:gz", MUST_GATHER),
    "gzipped list in tar.gz": tar("w:gz", {"lists/all.json.gz": gzip.compress(LIST)}),
}


def kinds(snapshot):
    return sorted(each["kind"] for each in snapshot.objects())


@cases("content", FILES)
@cases("stdin", {"file": False, "standard input": True})
def test_file_of_other_tools_is_read(tmp_path, monkeypatch, content, stdin):
    path = tmp_path / "dump"
    path.write_bytes(content)

    class Input:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Input)
    snapshot = Snapshot.open("-" if stdin else path)

    assert kinds(snapshot) == FOUND
    if b"etcd_info" not in content and b"must-gather" not in content[:1000]:
        assert [each for each in snapshot.problems if "etcd" not in each] == []


@cases("write", {"JSON": json.dumps, "YAML": yaml.safe_dump})
def test_export_of_the_simulator_is_read(tmp_path, write):
    (tmp_path / "export").write_text(write(SIMULATOR))
    snapshot = Snapshot.open(tmp_path / "export")

    assert (kinds(snapshot), snapshot.problems) == (["Node", "Pod"], ())


def test_folders_are_read(tmp_path):
    folder = tmp_path / "dump"
    for name, content in MUST_GATHER.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    snapshot = Snapshot.open(folder)

    assert kinds(snapshot) == FOUND
    (problem,) = snapshot.problems
    assert problem.startswith(
        f"{folder} has 9 values that are no Kubernetes objects, such as {folder}/{ROOT}/etcd_info/0"
    )


def test_output_directory_of_a_dump_is_read(tmp_path):
    (tmp_path / "default" / "web").mkdir(parents=True)
    (tmp_path / "nodes.json").write_text(indented(typed(NODE)))
    (tmp_path / "default" / "deployments.json").write_text(indented(typed(DEPLOYMENT)))
    (tmp_path / "default" / "pods.json.gz").write_bytes(gzip.compress(indented(typed(POD)).encode()))
    (tmp_path / "default" / "web" / "logs.txt").write_text(LOGS)

    assert kinds(Snapshot.open(tmp_path)) == FOUND


def test_damaged_file_of_a_folder_costs_only_itself(tmp_path):
    (tmp_path / "a.json").write_text('{"kind": ')
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(LIST)[:-30])
    (tmp_path / "c.yaml").write_bytes(b"kind: \xff")
    (tmp_path / "d.json").write_bytes(LIST)
    snapshot = Snapshot.open(tmp_path)

    assert kinds(snapshot) == FOUND
    places = [each.removeprefix(f"{tmp_path}/")[:10] for each in snapshot.problems]
    assert places == ["a.json, do", "b.json.gz ", "c.yaml: no"]


MANIFESTS = {
    "SimKube": (FILES["SimKube"], "is a trace of SimKube"),
    "SimKube in msgpack": (FILES["SimKube in msgpack"], "is a trace of SimKube"),
    "simulator": (json.dumps(SIMULATOR).encode(), "is an export of kube-scheduler-simulator"),
    "simulator in YAML": (yaml.safe_dump(SIMULATOR).encode(), "is an export of kube-scheduler-simulator"),
    "cluster-info dump": (DUMP.encode(), "is the output of `kubectl cluster-info dump`"),
    "must-gather": (FILES["must-gather in tar"], "is a tar archive, such as those of must-gather"),
    "snapshot": (FILES["gzipped list"], "is a compressed file, such as a saved snapshot"),
}


@cases("content, what", MANIFESTS)
def test_state_of_a_cluster_is_not_taken_for_manifests(tmp_path, content, what):
    (tmp_path / "cluster.json").write_text(json.dumps(NODE))
    (tmp_path / "dump").write_bytes(content)
    asked = ["fit", "-f", str(tmp_path / "dump"), "--from", str(tmp_path / "cluster.json")]
    result = CliRunner().invoke(main, asked)

    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    path = tmp_path / "dump"
    assert line.endswith(
        f": {path} {what}, which has the state of a cluster: pass it with --from {path}. -f takes manifests"
    )


def test_table_is_not_taken_for_manifests(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps(NODE))
    (tmp_path / "table").write_text("NAME  STATUS  ROLES\nn1    Ready   worker\n")
    asked = ["fit", "-f", str(tmp_path / "table"), "--from", str(tmp_path / "cluster.json")]

    assert "table is a table of `kubectl get`: pass what" in CliRunner().invoke(main, asked).stderr


FOREIGN = {
    "zip": (b"PK\x03\x04" + bytes(300), "is a zip archive: unpack it with `unzip`"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(300), "is compressed with zstd: unpack it with `unzstd`"),
    "xz": (b"\xfd7zXZ\x00" + bytes(300), "is compressed with xz: unpack it with `unxz`"),
    "bzip2": (b"BZh9" + bytes(300), "is compressed with bzip2: unpack it with `bunzip2`"),
    "tar without objects": (tar("w", {"notes.txt": b"x"}), "has no file that ends in .yaml, .yml, .json"),
    "cut-off tar": (tar("w", MUST_GATHER)[:3000], "is damaged: "),
    "cut-off tar.gz": (tar("w:gz", MUST_GATHER)[:-20], "is cut off: "),
    "gzipped text": (gzip.compress(b"hello"), "expected an object with apiVersion and kind, not 'hello'"),
    "table": (b"NAME  STATUS  ROLES\nn1    Ready   worker\n", "is a table of `kubectl get`: pass what `kubectl get"),
    "describe": (b"Name:         web\nNamespace:    default\nPriority: 0\n", "is the output of `kubectl describe`"),
}


@cases("content, message", FOREIGN)
def test_file_that_cannot_be_read_is_named(tmp_path, content, message):
    (tmp_path / "dump").write_bytes(content)
    with pytest.raises(SnapshotError) as raised:
        Snapshot.open(tmp_path / "dump")

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


CLAIM = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
PVC = document("PersistentVolumeClaim", "data", spec={"volumeName": "pv"})
UNBOUND = document("PersistentVolumeClaim", "data", spec={"storageClassName": "fast"})
CLASSLESS = document("PersistentVolumeClaim", "data", spec={"storageClassName": ""})
DEVICES = document("ResourceClaim", "gpu", "resource.k8s.io/v1")
DEVICES["spec"] = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def pod(**spec):
    return document("Pod", "web", spec={"containers": [], **spec})


LACKING = {
    "nodes": ([POD], ["nodes"]),
    "nothing": ([NODE, POD], []),
    "claims": ([NODE, pod(volumes=[CLAIM])], ["persistentvolumeclaims"]),
    "volumes": ([NODE, pod(volumes=[CLAIM]), PVC], ["persistentvolumes"]),
    "priority classes": ([NODE, pod(priorityClassName="gold")], ["priorityclasses.scheduling.k8s.io"]),
    "classes of Kubernetes": ([NODE, pod(priorityClassName="system-node-critical")], []),
    "storage classes": ([NODE, UNBOUND], ["storageclasses.storage.k8s.io"]),
    "no storage class": ([NODE, CLASSLESS], []),
    "device claims": ([NODE, pod(resourceClaims=[{"name": "g"}])], ["resourceclaims.resource.k8s.io"]),
    "devices": ([NODE, DEVICES], ["deviceclasses.resource.k8s.io", "resourceslices.resource.k8s.io"]),
}


@cases("objects, missing", LACKING)
def test_dump_is_said_to_lack_what_its_objects_refer_to(tmp_path, objects, missing):
    (tmp_path / "dump").write_text(yaml.safe_dump_all(objects))
    gaps = Snapshot.open(tmp_path / "dump").gaps

    assert [each.kind.resource for each in gaps] == missing
    assert all("there are none in the files" in str(each) for each in gaps)


FAST = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
NEW_CLAIM = document("PersistentVolumeClaim", "data", spec=FAST)
STATIC_CLAIM = document("PersistentVolumeClaim", "data", spec=FAST | {"storageClassName": ""})
CLASS = document("StorageClass", "fast", "storage.k8s.io/v1", namespace="")
CLASS["provisioner"] = "example.com"
NEEDED = {
    "class of a claim": ([NODE], [NEW_CLAIM], "storageclasses.storage.k8s.io: there are none"),
    "claim without a class": ([NODE], [STATIC_CLAIM], ""),
    "class in the manifests": ([NODE], [NEW_CLAIM, CLASS], ""),
    "class in the dump": ([NODE, CLASS], [NEW_CLAIM], ""),
    "claim of a pod": ([NODE], [pod(volumes=[CLAIM])], "persistentvolumeclaims: there are none"),
    "no names": ([NODE], [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}], ""),
}


@cases("dump, manifests, warning", NEEDED)
def test_fit_says_what_the_dump_lacks_for_the_manifests(tmp_path, dump, manifests, warning):
    for name, objects in (("dump", dump), ("new", manifests)):
        (tmp_path / name).write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(main, ["fit", "-f", str(tmp_path / "new"), "--from", str(tmp_path / "dump")])

    assert [line.startswith(f"warning: {warning}") for line in result.stderr.splitlines() if "warning" in line] == (
        [True] * bool(warning)
    )


def test_pods_keep_unknown_priority_classes_of_a_dump_without_any(tmp_path):
    (tmp_path / "dump").write_text(yaml.safe_dump_all([NODE, pod(priorityClassName="gold")]))
    new = {**pod(priorityClassName="gold"), "metadata": {"name": "new"}}
    new["spec"]["containers"] = [{"name": "c", "image": "x"}]

    assert [each.outcome for each in Insight(Snapshot.open(tmp_path / "dump")).fit([new]).pods] == ["pending"]
