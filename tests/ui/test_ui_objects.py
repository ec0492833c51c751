"""The page about any object, what the pages of pods and nodes show of theirs, events, and YAML as kubectl prints it."""

from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
import yaml
from served_page import GPU, node, pod, served

from bayplan.answers.snapshots.rights import ROLE, cluster_role
from bayplan.core.api.kinds import CONFIG_MAP, CORE_EVENT, POD, SECRET
from bayplan.core.api.times import rfc3339
from bayplan.faces.asking import events as events_module
from bayplan.faces.asking.sources import ClusterSource, FileSource
from bayplan.faces.ui.object_yaml import object_yaml
from bayplan.insight import Snapshot
from bayplan.testing.in_memory import load, make_client
from bayplan_devcluster.apiserver import ApiServer, Fault
from bayplan_devcluster.in_memory import InMemoryClient

TAKEN = datetime(2026, 3, 2, 12, tzinfo=UTC)


def taken_snapshot(*objects, **options):
    return served(FileSource(Snapshot.of(objects, source="file cluster.yaml", taken=TAKEN, **options)))


def aged(document, **ago):
    document["metadata"]["creationTimestamp"] = rfc3339(TAKEN - timedelta(**ago))
    return document


def condition(kind, status, reason="", message="", **ago):
    since = rfc3339(TAKEN - timedelta(**ago))
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def event(name, about, reason="Scheduled", message="it happened", **fields):
    namespace, _, of = about.rpartition("/")
    kind = "Pod" if namespace else "Node"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace or "default"},
        "involvedObject": {"kind": kind, "name": of, **({"namespace": namespace} if namespace else {})},
        "type": "Normal",
        "reason": reason,
        "message": message,
        **fields,
    }


async def test_pod_has_age_conditions_owner_and_claims():
    web = aged(pod("web-0", node="a"), hours=50)
    web["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "w", "controller": True}
    ]
    web["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    web["status"]["conditions"] = [condition("Ready", "False", "ContainersNotReady", "no probe", minutes=7)]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "namespace": "default"},
        "spec": {"volumeName": "pv-1"},
    }
    async with taken_snapshot(node("a"), web, claim) as visitor:
        page = await visitor.page("/pods/default/web-0")
        claimed = await visitor.page("/objects/persistentvolumeclaims/default/data-web-0")
    assert "Age 2d2h" in page.text
    assert "1 condition: Ready is False" in page.text
    assert "Ready False 7m ContainersNotReady no probe" in page.text
    assert "/objects/persistentvolumeclaims/default/data-web-0" in page.links
    assert "Owner statefulset default/web" in page.text  # which the file lacks, so that it is no link
    assert "/objects/pods/default/web-0" in page.links
    assert "Volume pv-1" in claimed.text
    assert "volumeName: pv-1" in claimed.text


async def test_node_has_labels_conditions_taints_and_age():
    a = aged(node("a", taints=[GPU], labels={"disk": "ssd"}), days=400)
    a["status"]["conditions"] += [
        condition("MemoryPressure", "True", minutes=3),
        condition("DiskPressure", "False", minutes=3),
    ]
    async with taken_snapshot(a) as visitor:
        page = await visitor.page("/nodes/a")
        everything = await visitor.page("/objects/nodes/a")
    assert "Age 400d" in page.text
    assert "gpu=yes:NoSchedule" in page.text
    assert "3 conditions: MemoryPressure is True" in page.text
    assert "disk ssd" in page.text
    assert "/nodes/a" in everything.links
    assert 'status: "True"' in everything.text


async def test_object_page_has_yaml_without_managed_fields():
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"replicas": 2},
    }
    async with taken_snapshot(node("a"), deployment) as visitor:
        text = await visitor.get("/objects/deployments.apps/default/web")
    assert "<h1><span" in text
    printed = text.partition("<pre")[2].partition(">")[2].partition("</pre>")[0]
    assert yaml.safe_load(printed) == deployment | {"metadata": {"name": "web", "namespace": "default"}}
    assert printed.startswith("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n")


async def test_markup_in_an_object_is_text():
    evil = pod("web-0", node="a")
    evil["metadata"]["annotations"] = {"note": "<script>alert(1)</script></pre>"}
    async with taken_snapshot(node("a"), evil) as visitor:
        text = await visitor.get("/objects/pods/default/web-0")
        page = await visitor.page("/objects/pods/default/web-0")
    assert "<script>alert" not in text
    assert page.text.count("<script>alert(1)</script></pre>") == 2


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": "none"},
        {"conditions": ["Ready", {"type": "Ready", "status": True, "lastTransitionTime": "yesterday"}, {}]},
        [],
    ],
    ids=str,
)
async def test_odd_custom_object_is_shown_as_it_is(status):
    odd = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default", "labels": [], "ownerReferences": [1, {}]},
        "spec": "text",
        "status": status,
    }
    async with taken_snapshot(node("a"), odd) as visitor:
        page = await visitor.page("/objects/widgets.example.com/default/w")
    assert "kind: Widget" in page.text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/objects/pods/default/none", "There is no pod default/none in file cluster.yaml."),
        ("/objects/pods/other/web-0", "There is no pod other/web-0 in file cluster.yaml; there is default/web-0."),
        ("/objects/nodes/b", "There is no node b in file cluster.yaml."),
        ("/objects/rockets/b", "There are no rockets in file cluster.yaml; there are nodes, pods."),
        ("/objects/secrets/default/password", "The page never shows secrets."),
        ("/objects/configmaps/default/settings", "The page never shows configmaps."),
    ],
)
async def test_object_that_is_not_shown_is_a_404_page(path, message):
    async with taken_snapshot(node("a"), pod("web-0", node="a")) as visitor:
        assert message in (await visitor.page(path, status=404)).text


async def test_secrets_are_not_shown_even_if_a_plugin_reads_them():
    known = Snapshot.of([node("a")])
    secret = {"default/s": b'{"metadata":{"name":"s","namespace":"default"},"data":{"password":"aHVudGVyMg=="}}'}
    documents = MappingProxyType({**known.documents, SECRET: secret, CONFIG_MAP: secret})
    async with served(FileSource(Snapshot(documents, "it"))) as visitor:
        for kind in (SECRET, CONFIG_MAP):
            page = await visitor.page(f"/objects/{kind.plural}/default/s", status=404)
            assert "aHVudGVyMg" not in page.text
        assert "there are nodes." in (await visitor.page("/objects/x/y", status=404)).text


async def test_large_object_is_not_written_as_yaml():
    large = pod("web-0", node="a")
    large["metadata"]["annotations"] = {"note": "x" * 300_000}
    async with taken_snapshot(node("a"), large) as visitor:
        text = await visitor.get("/objects/pods/default/web-0")
    assert "kubectl get pods web-0 -o yaml" in text


async def test_snapshot_says_which_events_it_has():
    created = event("e", "default/web-0", "Preempted", "by pod 123", lastTimestamp=rfc3339(TAKEN), type="Warning")
    async with taken_snapshot(node("a"), pod("web-0", node="a"), created) as visitor:
        page = await visitor.page("/objects/pods/default/web-0")
        other = await visitor.page("/objects/nodes/a")
    assert "A snapshot has only the events about pods that could not be created or were preempted." in page.text
    assert "0s Warning Preempted by pod 123" in page.text
    assert "A snapshot has only the events" in other.text
    assert "by pod 123" not in other.text


def made(client, document):
    client.server.load([document])


async def test_events_of_a_live_cluster_are_those_of_this_object_the_latest_first():
    client = make_client(node("a"), pod("web-0", node="a"))
    uid = (await client.get(POD, "web-0", namespace="default")).metadata.uid
    now = datetime.now(UTC)

    def ago(seconds):
        return rfc3339(now - timedelta(seconds=seconds))

    of_pod = {"kind": "Pod", "name": "web-0", "namespace": "default"}
    mine = {"involvedObject": of_pod | {"uid": uid}}
    former = {"involvedObject": of_pod | {"uid": "former"}}
    made(client, event("first", "default/web-0", "Scheduled", "assigned", lastTimestamp=ago(3600), **mine))
    made(
        client,
        event(
            "second", "default/web-0", "BackOff", "restarts", type="Warning", count=12, lastTimestamp=ago(60),
            firstTimestamp=ago(660), source={"component": "kubelet"}, **mine,
        ),
    )  # fmt: skip
    made(client, event("former", "default/web-0", "Killing", "the former one", lastTimestamp=ago(5), **former))
    made(client, event("other", "default/web-1", "Scheduled", "of another pod", lastTimestamp=ago(5)))
    made(client, event("node", "a", "NodeReady", "the node is ready", lastTimestamp=ago(600)))
    async with served(ClusterSource(client)) as visitor:
        page = await visitor.page("/objects/pods/default/web-0")
        of_node = await visitor.page("/objects/nodes/a")
    assert "Events 2 events" in page.text
    assert "(×12 over 11m ) Warning BackOff kubelet restarts 60m Normal Scheduled assigned" in page.text
    assert "the former one" not in page.text
    assert "of another pod" not in page.text
    assert "Events 1 event Last seen Type Reason From Message 10m Normal NodeReady the node is ready" in of_node.text


async def test_most_events_are_limited(monkeypatch):
    monkeypatch.setattr(events_module, "MOST_EVENTS", 2)
    client = make_client(node("a"))
    for number in range(3):
        made(
            client,
            event(f"e{number}", "a", message=f"number {number}", lastTimestamp=f"2026-01-0{number + 1}T00:00:00Z"),
        )
    async with served(ClusterSource(client)) as visitor:
        page = await visitor.page("/objects/nodes/a")
    assert "Events 2 events There are more than 2 events." in page.text
    assert "number 0" not in page.text


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "There is no right to list events."), (500, "The events can't be read: 500: no luck.")],
)
async def test_events_that_cannot_be_read_cost_only_the_events(status, message):
    client = make_client(node("a"), pod("web-0", node="a"))
    async with served(ClusterSource(client)) as visitor:
        await visitor.page("/objects/pods/default/web-0")
        client.transport.faults.add(Fault(verb="list", resource="events", answer=status, message="no luck"))
        page = await visitor.page("/objects/pods/default/web-0")
    assert message in page.text
    assert "kind: Pod" in page.text


async def test_role_of_the_manifests_is_sufficient_for_object_pages():
    server = ApiServer(address=None, alpha=True, rbac=True, tokens={"token": "reader"})
    load(server, node("a"), pod("web-0", node="a"))
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    header = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}}
    ref = {"kind": "ClusterRole", "name": ROLE, "apiGroup": "rbac.authorization.k8s.io"}
    server.load([cluster_role(), header | {"subjects": [subject], "roleRef": ref}])
    client = InMemoryClient(server, token="token")
    async with served(ClusterSource(client)) as visitor:
        for path in ("/objects/pods/default/web-0", "/objects/nodes/a"):
            page = await visitor.page(path)
            assert "None. API servers keep events for an hour." in page.text
    listed = [each.info for each in client.transport.requests if each.info.resource == CORE_EVENT.plural]
    assert {info.verb for info in listed} == {"list", "watch"}


def test_yaml_is_what_kubectl_prints():
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {}},
        "spec": {
            "containers": [
                {"name": "c", "args": ["true", "1", "1e3", "0x1F", "y", "8", "", "~", "a: b", "*x", "plain"]}
            ],
            "nodeName": None,
            "priority": 0,
        },
        "status": {"message": "first\nsecond\n", "ready": True, "text": "ü"},
    }
    assert object_yaml(document) == (
        "apiVersion: v1\n"
        "kind: Pod\n"
        "metadata:\n"
        "  annotations: {}\n"
        '  creationTimestamp: "2026-01-01T00:00:00Z"\n'
        "  name: web\n"
        "spec:\n"
        "  containers:\n"
        "  - args:\n"
        '    - "true"\n'
        '    - "1"\n'
        '    - "1e3"\n'
        '    - "0x1F"\n'
        '    - "y"\n'
        '    - "8"\n'
        '    - ""\n'
        '    - "~"\n'
        "    - 'a: b'\n"
        "    - '*x'\n"
        "    - plain\n"
        "    name: c\n"
        "  nodeName: null\n"
        "  priority: 0\n"
        "status:\n"
        "  message: |\n"
        "    first\n"
        "    second\n"
        "  ready: true\n"
        "  text: ü\n"
    )
    assert yaml.safe_load(object_yaml(document)) == document
