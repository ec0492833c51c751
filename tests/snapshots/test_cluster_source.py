"""Snapshots of the embedded API server, in memory and over HTTP: rights, pages, expired lists, missing kinds."""

import asyncio

import msgspec
import pytest
from tests.insight.bayplan_documents import document

from bayplan.answers.snapshots.cluster import read_client
from bayplan.answers.snapshots.rights import EFFECTS, REQUIRED, ROLE, cluster_role
from bayplan.client import HttpClient
from bayplan.core.api.kinds import (
    CONFIG_MAP,
    NODE,
    PERSISTENT_VOLUME,
    POD,
    POD_DISRUPTION_BUDGET,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SECRET,
    custom_kind,
)
from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS
from bayplan.insight import Snapshot, SnapshotError
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load, make_client
from bayplan_devcluster.apiserver import ADMIN, Address, ApiServer, Fault, Tls
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.in_memory import InMemoryClient

TOKEN = "readers-token"
READER = "reader"
UNREACHABLE = "http://127.0.0.1:1"


def objects_of_most_kinds():
    yield make_node("a")
    yield make_pod("web", node="a")
    yield document("Secret", "password", data={"key": "c2VjcmV0"}, type="Opaque")
    yield document("ConfigMap", "settings", data={"key": "value"})
    yield document("PersistentVolumeClaim", "data", spec=CLAIM)
    yield document("PodDisruptionBudget", "web", "policy/v1", spec={"minAvailable": 1})
    yield document("PodGroup", "gang", "scheduling.k8s.io/v1alpha2", spec=GANG)
    yield document("DeviceClass", "gpu", "resource.k8s.io/v1", namespace="", spec={})


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def server_with_role(role):
    """A server that enforces RBAC, and a client with the rights of `role`."""
    server = ApiServer(address=None, alpha=True, rbac=True, tokens={TOKEN: READER})
    load(server, *objects_of_most_kinds())
    subject = {"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}
    binding = document("ClusterRoleBinding", ROLE, "rbac.authorization.k8s.io/v1", namespace="")
    ref = {"kind": "ClusterRole", "name": ROLE, "apiGroup": "rbac.authorization.k8s.io"}
    server.load([role, binding | {"subjects": [subject], "roleRef": ref}])
    return InMemoryClient(server, token=TOKEN)


async def test_cluster_is_read_without_secrets_and_config_maps():
    client = make_client(*objects_of_most_kinds())
    snapshot = await Snapshot.from_client(client)

    assert list(snapshot.of_kind(NODE)) == ["a"]
    assert list(snapshot.of_kind(POD)) == ["default/web"]
    assert list(snapshot.of_kind(POD_DISRUPTION_BUDGET)) == ["default/web"]
    assert list(snapshot.of_kind(custom_kind(POD_GROUPS))) == ["default/gang"]
    assert not snapshot.of_kind(SECRET)
    assert not snapshot.of_kind(CONFIG_MAP)
    assert {sent.info.resource for sent in client.transport.requests}.isdisjoint({"secrets", "configmaps"})
    assert {sent.info.verb for sent in client.transport.requests} == {"list", "get"}
    assert [sent.info.path for sent in client.transport.requests if sent.info.verb == "get"] == ["/version"]
    assert (snapshot.version, snapshot.followed.version) == ("v1.36.2", "1.36")
    assert snapshot.taken is not None
    assert snapshot.gaps == ()


@pytest.mark.parametrize(("version", "api"), [("1.36", "v1alpha2"), ("1.37", "v1beta1")])
async def test_pod_groups_are_read_in_the_version_that_the_server_has(version, api):
    group = document("PodGroup", "gang", f"scheduling.k8s.io/{api}", spec=GANG)
    snapshot = await Snapshot.from_client(make_client(make_node("a"), group, version=version))

    (read,) = (each for each in snapshot.objects() if each["kind"] == "PodGroup")
    assert read["apiVersion"] == f"scheduling.k8s.io/{api}"
    assert snapshot.document(custom_kind(POD_GROUPS), "default/gang") == read
    assert snapshot.gaps == ()


async def test_role_of_the_manifests_is_sufficient():
    snapshot = await Snapshot.from_client(server_with_role(cluster_role()))

    assert snapshot.gaps == ()
    assert list(snapshot.of_kind(POD)) == ["default/web"]


def without(kind):
    role = cluster_role()
    for rule in role["rules"]:
        if rule["apiGroups"] == [kind.group]:
            rule["resources"] = [plural for plural in rule["resources"] if plural != kind.plural]
    return role | {"rules": [rule for rule in role["rules"] if rule["resources"]]}


SERVED = [kind for kind in EFFECTS if not kind.group.endswith(".x-k8s.io") and kind != custom_kind(COMPOSITES)]
"""The kinds that the server has, which is one of 1.36."""


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.resource)
async def test_each_missing_right_is_a_gap_that_names_it(kind):
    snapshot = await Snapshot.from_client(server_with_role(without(kind)))

    (gap,) = snapshot.gaps
    assert gap.kind == kind
    assert str(gap) == f"{kind.resource}: no right to list {kind.resource}: {EFFECTS[kind]}"


@pytest.mark.parametrize("kind", REQUIRED, ids=lambda kind: kind.resource)
async def test_missing_right_to_list_nodes_or_pods_is_an_error(kind):
    with pytest.raises(SnapshotError) as raised:
        await Snapshot.from_client(server_with_role(without(kind)))

    assert str(raised.value) == (
        f"the API server: no right to list {kind.resource}; "
        "`bayplan manifests --insight` prints the ClusterRole with the rights that are needed"
    )


async def test_missing_right_to_a_kind_that_the_server_lacks_is_no_gap():
    coscheduling = next(kind for kind in EFFECTS if kind not in SERVED)

    assert (await Snapshot.from_client(server_with_role(without(coscheduling)))).gaps == ()


async def test_unknown_token_is_one_error():
    client = server_with_role(cluster_role())
    with pytest.raises(SnapshotError, match="401 Unauthorized"):
        await Snapshot.from_client(InMemoryClient(client.server, token="wrong"))


def paged_client(pods):
    return make_client(make_node("a"), *(make_pod(f"pod-{number:04}", node="a") for number in range(pods)))


async def test_lists_are_read_in_pages_with_progress(monkeypatch):
    monkeypatch.setattr("bayplan.answers.snapshots.cluster.PAGE_SIZE", 4)
    reported = []
    snapshot = await Snapshot.from_client(paged_client(10), progress=lambda *each: reported.append(each))

    assert len(snapshot.of_kind(POD)) == 10
    assert [each for each in reported if each[0] == "pods"] == [("pods", 4), ("pods", 8), ("pods", 10)]


@pytest.mark.parametrize(("times", "pages"), [(1, [4, 4, 4, 4, 4]), (2, [4, 4, 4, 4, None])])
async def test_expired_list_starts_over(monkeypatch, times, pages):
    monkeypatch.setattr("bayplan.answers.snapshots.cluster.PAGE_SIZE", 4)
    client = paged_client(10)
    left = list(range(times))

    def expire(what, count):
        if what == "pods" and count == 4 and left:
            load(client.server, make_pod(f"late-{left.pop()}", node="a"))
            client.server.store.collection("pods").compact()

    snapshot = await Snapshot.from_client(client, progress=expire)

    assert len(snapshot.of_kind(POD)) == 10 + times
    assert [sent.request.params.get("limit") for sent in client.transport.sent("list", "pods")] == pages


async def test_terminated_pods_are_left_out():
    client = make_client(make_node("a"), make_pod("live", node="a"), make_pod("done", status={"phase": "Succeeded"}))

    assert list((await Snapshot.from_client(client)).of_kind(POD)) == ["default/live"]


async def test_kind_that_cannot_be_listed_is_a_gap():
    client = make_client(make_node("a"))
    client.transport.faults.add(Fault(verb="list", resource="persistentvolumes", answer=500, message="broken"))
    snapshot = await Snapshot.from_client(client)

    (gap,) = snapshot.gaps
    assert (gap.kind, gap.reason) == (PERSISTENT_VOLUME, "cannot be listed (500: broken)")


async def test_kinds_that_the_server_lacks_are_left_out():
    client = InMemoryClient(ApiServer(address=None))  # without PodGroups
    load(client.server, make_node("a"), make_pod("web", node="a"))
    client.transport.faults.add(Fault(when=lambda info: info.group == "resource.k8s.io", answer=404))
    snapshot = await Snapshot.from_client(client)

    assert snapshot.gaps == ()
    assert not snapshot.of_kind(RESOURCE_SLICE)


async def test_server_without_nodes_is_no_kubernetes_api_server():
    client = make_client()
    client.transport.faults.add(Fault(answer=404))
    with pytest.raises(SnapshotError, match="serves no nodes: it is not a Kubernetes API server"):
        await Snapshot.from_client(client)


class OlderServer(InMemoryClient):
    """A server that has resource.k8s.io in `version` only."""

    def __init__(self, version, answers):
        super().__init__(ApiServer(address=None))
        self._version, self._answers = version, answers

    async def request(self, method, path, **options):
        prefix = "/apis/resource.k8s.io/"
        if path.startswith(prefix):
            version, _, plural = path.removeprefix(prefix).partition("/")
            if version != self._version:
                path = "/apis/none/v1/none"
            elif plural in self._answers:
                return msgspec.json.encode({"items": self._answers[plural]})
        return await super().request(method, path, **options)


SELECTORS = [{"cel": {"expression": "true"}}]
DEVICE = {"attributes": {"model": {"string": "x"}}}
CURRENT_REQUESTS = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 2, "selectors": SELECTORS}}]
OLDER = {
    "v1beta2": (CURRENT_REQUESTS, [{"name": "gpu-0", **DEVICE}]),
    "v1beta1": (
        [{"name": "gpu", "deviceClassName": "gpu", "count": 2, "selectors": SELECTORS}],
        [{"name": "gpu-0", "basic": DEVICE}],
    ),
}


@pytest.mark.parametrize("version", OLDER)
async def test_device_claims_of_older_versions_are_converted(version):
    requests, devices = OLDER[version]
    metadata = {"name": "one", "namespace": "default"}
    client = OlderServer(
        version,
        {
            "resourceclaims": [{"metadata": metadata, "spec": {"devices": {"requests": requests}}}],
            "resourceslices": [{"metadata": {"name": "one"}, "spec": {"driver": "gpu", "devices": devices}}],
        },
    )
    snapshot = await Snapshot.from_client(client)

    claim, slice_ = snapshot.document(RESOURCE_CLAIM, "default/one"), snapshot.document(RESOURCE_SLICE, "one")
    assert claim["spec"]["devices"]["requests"] == CURRENT_REQUESTS
    assert slice_["spec"]["devices"] == [{"name": "gpu-0", **DEVICE}]
    assert claim["apiVersion"] == "resource.k8s.io/v1"


def test_device_claims_of_older_versions_in_objects_are_converted():
    spec = {"devices": {"requests": [*OLDER["v1beta1"][0], {"name": "any", "firstAvailable": [{"name": "one"}]}]}}
    snapshot = Snapshot.of(
        [
            document("ResourceClaim", "one", "resource.k8s.io/v1beta1", spec=spec),
            document("ResourceClaimTemplate", "two", "resource.k8s.io/v1beta1", spec={"spec": spec}),
        ]
    )

    expected = [*CURRENT_REQUESTS, {"name": "any", "firstAvailable": [{"name": "one"}]}]
    claim, template = snapshot.objects()
    assert claim["spec"]["devices"]["requests"] == expected
    assert template["spec"]["spec"]["devices"]["requests"] == expected


@pytest.fixture
async def served(tmp_path):
    """A cluster over HTTP, and its kubeconfig."""
    server = ApiServer(address=Address(tls=Tls.create()), tokens={"secret": ADMIN}, rbac=True)
    async with DevCluster(2, server=server, controllers=False) as cluster:
        await cluster.nodes_ready()
        path = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(path)
        yield cluster, path


async def test_cluster_of_a_kubeconfig_is_read_over_http(served):
    cluster, kubeconfig = served
    snapshot = await asyncio.to_thread(Snapshot.from_cluster, kubeconfig)

    assert set(snapshot.of_kind(NODE)) == cluster.node_names
    assert snapshot.source == f"cluster {cluster.url}"


async def test_dev_cluster_is_read_as_over_http(served):
    cluster, kubeconfig = served
    by_http = await asyncio.to_thread(Snapshot.from_cluster, kubeconfig)
    directly = Snapshot.from_dev_cluster(cluster)

    def keys(snapshot):
        return {kind: list(known) for kind, known in snapshot.documents.items()}

    assert keys(directly) == keys(by_http)


async def test_cluster_can_be_read_while_an_event_loop_runs(served):
    cluster, kubeconfig = served

    async def notebook():
        return Snapshot.from_cluster(kubeconfig)

    snapshot = await asyncio.to_thread(asyncio.run, notebook())
    assert set(snapshot.of_kind(NODE)) == cluster.node_names


async def test_unreachable_server_is_one_error():
    async with HttpClient(UNREACHABLE, retries=0) as client:
        with pytest.raises(SnapshotError, match=r"cannot read nodes of the API server: .*refused"):
            await Snapshot.from_client(client)


async def test_connection_that_breaks_between_kinds_is_one_error():
    client = make_client(make_node("a"))
    client._retries = 0
    client.transport.faults.add(Fault(verb="list", resource="services", drop="before"))
    with pytest.raises(SnapshotError, match="cannot read services of the API server"):
        await Snapshot.from_client(client)


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        ("", None, "no current-context is set, and no contexts are defined"),
        ("contexts: [{name: dev, context: {cluster: c, user: u}}]", "prod", "there is no context 'prod'; found: dev"),
        ("{", None, "the kubeconfig is not YAML"),
    ],
)
def test_kubeconfig_that_cannot_be_used_is_one_error(tmp_path, content, context, message):
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(SnapshotError, match=message):
        Snapshot.from_cluster(path, context)


async def test_repr_of_a_reading_leaves_out_the_objects():
    reading = await read_client(make_client(make_node("a"), make_pod("web")))

    assert "web" not in repr(reading)
