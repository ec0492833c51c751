"""Objects of another cluster are restored as they were there."""

import asyncio
import json

import pytest

from bayplan.core.api.kinds import DEPLOYMENT, NAMESPACE, NODE, POD, REPLICA_SET
from bayplan.faces.cli.cluster_contents import read_contents
from bayplan.insight import Snapshot
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.kubelet import make_nodes

OLD = "2020-01-01T00:00:00Z"


def stored(api_version, kind, name, version, namespace="team", **fields):
    place = {"namespace": namespace} if namespace else {}
    metadata = {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": OLD,
    } | place
    owner, labels = fields.pop("owner", None), fields.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    if owner:
        controller = {"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": f"uid-of-{owner[1]}"}
        metadata["ownerReferences"] = [controller | {"controller": True}]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
RUNNING = {
    "phase": "Running",
    "podIP": "10.0.0.9",
    "startTime": OLD,
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": OLD}],
}
POD_SPEC = {**TEMPLATE["spec"], "nodeName": "n"}
WEB = stored("v1", "Pod", "web-0", 900, owner=("ReplicaSet", "rs"), labels=LABELS, spec=POD_SPEC, status=RUNNING)
OBJECTS = [
    WEB,
    stored(
        "apps/v1",
        "ReplicaSet",
        "rs",
        800,
        owner=("Deployment", "web"),
        labels=LABELS,
        spec=WORKLOAD,
        status={"replicas": 1},
    ),
    stored("v1", "Node", "n", 950, namespace="", status={"capacity": {"cpu": "4", "pods": "9"}}),
]


@pytest.fixture
def server():
    return ApiServer(address=None)


def entries(server, kind):
    return {entry.key: json.loads(entry.raw) for entry in server.store.collection(kind.resource).select()}


def test_everything_but_managed_fields_is_kept(server):
    managed = {**OBJECTS[0], "metadata": {**OBJECTS[0]["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    assert server.restore([managed, *OBJECTS[1:]]) == []
    found = entries(server, POD)["team/web-0"]
    assert found["metadata"] == OBJECTS[0]["metadata"]
    assert (found["status"]["podIP"], found["status"]["startTime"]) == ("10.0.0.9", OLD)
    assert entries(server, NODE)["n"]["metadata"]["resourceVersion"] == "950"
    assert server.store.version >= 950
    assert "team" in entries(server, NAMESPACE)


def test_an_owner_that_is_elsewhere_exists_and_one_that_is_deleted_here_does_not(server):
    server.restore(OBJECTS)
    assert server.store.exists("uid-of-web")  # the Deployment, which isn't among the objects
    assert not server.store.exists("uid-of-nothing")


def test_an_object_with_the_name_of_an_initial_one_replaces_it(server):
    server.restore([stored("v1", "Namespace", "default", 7, namespace="", status={"phase": "Active"})])
    assert entries(server, NAMESPACE)["default"]["metadata"]["uid"] == "uid-of-default"


def test_objects_that_cannot_be_restored_are_named(server):
    odd = stored("v1", "Pod", "odd", 3, spec={"containers": "none"})
    unknown = stored("example.com/v1", "Widget", "w", 4)
    problems = server.restore([odd, unknown, *OBJECTS])
    assert [problem.partition(":")[0] for problem in problems] == ["Pod team/odd", "Widget team/w"]
    assert len(entries(server, POD)) == 1


def test_custom_resources_are_restored_with_their_definition(server):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = stored(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", 9000, namespace="", spec={
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    )  # fmt: skip
    assert server.restore([stored("example.com/v1", "Widget", "w", 4), definition]) == []
    assert server.store.collection("widgets.example.com").objects["team/w"].version == 4


async def test_controllers_and_kubelets_go_on_with_restored_objects():
    deployment = stored("apps/v1", "Deployment", "web", 700, spec=WORKLOAD)
    cluster = DevCluster(make_nodes(0), server=ApiServer(address=None))
    assert cluster.server.restore([deployment, *OBJECTS]) == []
    async with cluster, asyncio.timeout(20):
        await cluster.nodes_ready({"n"})
        async for event in cluster.client.watch(DEPLOYMENT):
            status = event.object.status
            if status and status.readyReplicas == 1:
                break
        assert [pod.metadata.uid for pod in (await cluster.client.list(POD)).items] == ["uid-of-web-0"]
        assert [each.metadata.uid for each in (await cluster.client.list(REPLICA_SET)).items] == ["uid-of-rs"]


def test_files_with_dumps_manifests_and_snapshots(tmp_path):
    (tmp_path / "dump.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}\n")
    Snapshot.of(OBJECTS).save(tmp_path / "saved.bayplan")
    contents = read_contents([tmp_path / "dump.json", tmp_path / "pod.yaml"])
    assert ([each["kind"] for each in contents.restored], [one.name for one in contents.created]) == (
        ["Pod", "ReplicaSet", "Node"],
        ["Pod p"],
    )
    assert (contents.node_names, contents.have_nodes) == ({"n"}, True)
    saved = read_contents([tmp_path / "saved.bayplan"])
    assert sorted(each["metadata"]["uid"] for each in saved.restored) == ["uid-of-n", "uid-of-rs", "uid-of-web-0"]
