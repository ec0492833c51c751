"""DynamicResources: PreBind, Unreserve and PostFilter write claims, and handle failures."""

import asyncio

import pytest
from tests.support.lossy_transport import REPLY_LOST, REQUEST_LOST, LossyTransport
from tests.support.tables import cases
from tests.support.waiting import turns

from bayplan.client import Client
from bayplan.core.api.kinds import POD, RESOURCE_CLAIM
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import SKIP, Code
from bayplan.core.plugins.arguments import DynamicResourcesArgs
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.documents import document_of, known
from bayplan.testing.in_memory import make_client, stored
from bayplan_devcluster.apiserver import Fault
from devices import (
    DRIVER,
    Clock,
    Devices,
    allocated,
    claim,
    device,
    device_class,
    pod_with,
    request,
    resource_slice,
    settled,
)

PROTECTED = {"finalizers": ["resource.kubernetes.io/delete-protection"]}
READY, BROKEN = {"type": "ready", "status": "True"}, {"type": "broken", "status": "True"}
CONFLICT = {"answer": 409, "reason": "Conflict", "message": "the object has been modified"}
BROKEN_SERVER = {"answer": 500, "message": "disk full"}
REFUSED = {"answer": 403, "reason": "Forbidden", "message": "no"}


def fail(client, fault, times=1, name=None):
    """Let updates of claims fail."""
    client.server.faults.add(Fault(verb="update", resource="resourceclaims", name=name, times=times, **fault))


def world(*objects, slices=("a", "b"), classes=None, args=None, clock=None, nodes=()):
    """The same objects on a server and in the cluster."""
    documents = [each for each in objects if isinstance(each, dict)]
    there = [classes or device_class(), resource_slice("s", *slices, node="n1")]
    client = make_client(*there, *objects)
    cluster = Devices([*nodes, *there, *documents], client, args or DynamicResourcesArgs(), clock or Clock())
    deliver_claims(cluster, client)
    return cluster, client


def deliver_claims(cluster, client):
    """Deliver the server's claims as watch events."""
    for document in stored(client.server, RESOURCE_CLAIM):
        _, key, each = known(document)
        cluster.state.objects[RESOURCE_CLAIM].set(key, each)


async def bind(cluster, pod, node="n1"):
    cluster.reserve(pod, node)
    return await cluster.plugin.pre_bind(cluster.cycle, pod, node)


def written(client):
    return [
        (sent.info.verb, sent.info.resource, sent.info.subresource)
        for sent in client.transport.requests
        if sent.info.verb not in {"get", "list", "watch"}
    ]


@pytest.mark.feature("DynamicResources: binding")
async def test_allocation_is_written_with_its_reservation():
    cluster, client = world(claim("c", request()))
    pod = pod_with("c")
    assert await bind(cluster, pod) is None
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert now.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
    assert [each.device for each in now.status.allocation.devices.results] == ["a"]
    assert [(each.resource, each.uid) for each in now.status.reservedFor] == [("pods", pod.uid)]
    assert now.status.allocation.allocationTimestamp.timestamp() == 1_800_000_000
    assert cluster.ask(pod_with("c", name="q")) is None  # the written claim is assumed until its watch event arrives
    assert cluster.plugin.pre_bind_pre_flight(cluster.cycle, pod, "n1") is None
    assert cluster.plugin.pre_bind_pre_flight(CycleState(), pod, "n1") is SKIP


@pytest.mark.feature("DynamicResources: binding")
async def test_a_claim_that_has_devices_is_only_reserved():
    status = allocated("a", node="n1", reserved=["other"], allocationTimestamp="2026-01-01T00:00:00Z")
    cluster, client = world(claim("c", request(), status=status))
    assert await bind(cluster, pod_with("c", name="p")) is None
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert [each.uid for each in now.status.reservedFor] == ["other", pod_with("c", name="p").uid]
    assert written(client) == [("update", "resourceclaims", "status")]


@pytest.mark.feature("DynamicResources: binding")
async def test_reservation_is_rejected_by_the_server():
    cluster, client = world(claim("c", request(), status=allocated("a", node="n1", reserved=["other"])))
    fail(client, REFUSED)
    status = await bind(cluster, pod_with("c"))
    assert (status.code, status.message) == (Code.ERROR, "add reservation to claim default/c: no")


@pytest.mark.feature("DynamicResources: binding")
async def test_write_is_retried_after_a_conflict():
    cluster, client = world(claim("c", request()))
    fail(client, CONFLICT, times=2)
    assert await bind(cluster, pod_with("c")) is None
    assert (await client.get(RESOURCE_CLAIM, "c", "default")).status.reservedFor


@cases(
    "times, error, metadata, message",
    {
        "conflicts": (5, CONFLICT, {}, "add finalizer to claim default/c: the object has been modified"),
        "refused": (1, REFUSED, {}, "add finalizer to claim default/c: no"),
        "refused, protected": (1, REFUSED, PROTECTED, "add allocation and reservation to claim default/c: no"),
        "server error": (1, BROKEN_SERVER, PROTECTED, "add allocation and reservation to claim default/c: disk full"),
    },
)
@pytest.mark.feature("DynamicResources: binding")
async def test_failed_write_releases_the_devices(times, error, metadata, message):
    cluster, client = world(claim("c", request(), **metadata), claim("d", request(count=2)))
    fail(client, error, times=times)
    pod = pod_with("c")
    status = await bind(cluster, pod)
    assert (status.code, status.message) == (Code.ERROR, message)
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    assert cluster.gets(pod_with("d", name="q")) == "r=a,r=b"


@pytest.mark.parametrize(
    ("then", "warnings"), [([], 0), ([{"drop": "before"}], 0), ([{"answer": 503}, {"answer": 429}] * 3, 1)], ids=str
)
@pytest.mark.feature("DynamicResources: binding")
async def test_claim_is_written_although_the_reply_is_lost(caplog, then, warnings):
    """`then`: faults of the requests that read the claim after the lost reply. The client repeats some by itself."""
    cluster, client = world(claim("c", request(), **PROTECTED))
    fail(client, {"drop": "after"})
    for fault in then:
        client.server.faults.add(Fault(verb="get", resource="resourceclaims", times=1, **fault))
    assert await bind(cluster, pod_with("c")) is None
    assert client.transport.requests[-1].info.verb == "get"
    assert cluster.ask(pod_with("c", name="q")) is None  # the written claim is assumed
    assert caplog.text.count("cannot find out whether the allocation of claim default/c was carried out") == warnings


@pytest.mark.feature("DynamicResources: binding")
async def test_devices_stay_taken_until_the_server_says_whether_the_claim_was_written():
    cluster, client = world(claim("c", request()), claim("d", request(count=2)))
    fail(client, {"drop": "before"})
    asked = asyncio.Event()
    silent = Fault(verb="get", resource="resourceclaims", drop="before", when=lambda _: asked.set() or True)
    client.server.faults.add(silent)
    pod, other = pod_with("c"), pod_with("d", name="q")
    cluster.reserve(pod)
    cycle = cluster.cycle
    binding = asyncio.create_task(cluster.plugin.pre_bind(cycle, pod, "n1"))
    await asked.wait()
    assert cluster.gets(other) == "cannot allocate all claims"
    silent.times = silent.hits
    assert await binding is None, "it is written again: the lost request could arrive late"
    assert cluster.gets(other) == "cannot allocate all claims"


@cases(
    "what, message",
    {
        "refused": (REFUSED, "add allocation and reservation to claim default/c: no"),
        "deleted": (None, "claim default/c got deleted in the meantime"),
    },
)
@pytest.mark.feature("DynamicResources: binding")
async def test_devices_are_free_once_no_lost_write_can_be_carried_out(what, message):
    cluster, client = world(claim("c", request(), **PROTECTED), claim("d", request(count=2)))
    fail(client, {"drop": "before"}, times=4)
    if what is not None:
        fail(client, what)
    else:
        await client.delete(RESOURCE_CLAIM, "c", "default")
    pod = pod_with("c")
    assert (await bind(cluster, pod)).message == message
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    assert cluster.gets(pod_with("d", name="q")) == "r=a,r=b"


@cases("script", {"lost": [REQUEST_LOST] * 5, "late": [5.0] * 3, "reply lost": [REPLY_LOST] * 5, "once": [5.0]})
@pytest.mark.feature("DynamicResources: binding")
async def test_devices_stay_taken_while_writes_of_their_claim_are_cut(script):
    cluster, client = world(claim("c", request(), **PROTECTED), claim("d", request(count=2)))
    network = LossyTransport(client.server, *script, concerns=lambda path: "/c" in path)
    cluster.handle.client = Client(network)
    pod, other = pod_with("c"), pod_with("d", name="q")
    cluster.reserve(pod)
    binding = asyncio.create_task(cluster.plugin.pre_bind(cluster.cycle, pod, "n1"))
    while not binding.done():
        assert cluster.gets(other) == "cannot allocate all claims"
        await asyncio.sleep(0)
    await network.arrived()
    deliver_claims(cluster, client)
    assert (await binding, cluster.gets(other)) == (None, "cannot allocate all claims")
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert [each.uid for each in now.status.reservedFor] == [pod.uid]


@cases("fault, written", {"carried out": ({"drop": "after"}, True), "refused": (REFUSED, False)})
@pytest.mark.feature("DynamicResources: binding")
async def test_cancellation_waits_until_the_write_is_known(fault, written):
    """A preemption cancels PreBind: what is written is known before the devices are given back."""
    cluster, client = world(claim("c", request(), **PROTECTED), claim("d", request(count=2)))
    fail(client, fault)
    held, sent = asyncio.Event(), asyncio.Event()
    send = client.transport.send

    async def slow(request):
        sent.set()
        await held.wait()
        return await send(request)

    client.transport.send = slow
    pod, other = pod_with("c"), pod_with("d", name="q")
    cluster.reserve(pod)
    cycle = cluster.cycle
    binding = asyncio.create_task(cluster.plugin.pre_bind(cycle, pod, "n1"))
    await sent.wait()
    binding.cancel()
    await turns()
    assert not binding.done()
    assert cluster.gets(other) == "cannot allocate all claims"
    held.set()
    with pytest.raises(asyncio.CancelledError):
        await binding
    assert cluster.gets(other) == ("cannot allocate all claims" if written else "r=a,r=b")
    cluster.plugin.unreserve(cycle, pod, "n1")
    await settled(cluster)
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert not (now.status.reservedFor if now.status else None)


@pytest.mark.feature("DynamicResources: binding")
async def test_first_claim_is_unreserved_if_the_second_fails():
    cluster, client = world(claim("c", request()), claim("d", request()))
    pod = pod_with("c", "d")
    fail(client, REFUSED, name="d")
    status = await bind(cluster, pod)
    assert (status.code, status.message) == (Code.ERROR, "add finalizer to claim default/d: no")
    assert (await client.get(RESOURCE_CLAIM, "c", "default")).status.reservedFor
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    await settled(cluster)
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert not now.status.reservedFor
    assert now.status.allocation is not None
    assert (await client.get(RESOURCE_CLAIM, "d", "default")).status.allocation is None


@cases(
    "change, message",
    {
        "deleted": ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "claim default/c got deleted in the meantime"),
        "allocated": ({"status": allocated("b")}, "claim default/c got allocated elsewhere in the meantime"),
    },
)
@pytest.mark.feature("DynamicResources: binding")
async def test_claim_changed_since_the_decision(change, message):
    cluster, _ = world(claim("c", request()))
    other = make_client(claim("c", request(), **change))
    fail(other, CONFLICT)
    cluster.handle.client = other
    status = await bind(cluster, pod_with("c"))
    assert (status.code, status.message) == (Code.ERROR, message)


@pytest.mark.feature("DynamicResources: binding")
async def test_claim_deleted_since_the_decision():
    cluster, client = world(claim("c", request()))
    await client.delete(RESOURCE_CLAIM, "c", "default")
    status = await bind(cluster, pod_with("c"))
    message = 'add finalizer to claim default/c: resourceclaims.resource.k8s.io "c" not found'
    assert (status.code, status.message) == (Code.ERROR, message)
    assert cluster.state.objects[RESOURCE_CLAIM].view(type(cluster.plugin._allocations)).in_flight("uid-c") is None


CONDITIONAL = device("a", bindingConditions=["ready"], bindingFailureConditions=["broken"])


def conditions(*them):
    often = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R", "message": "so"}
    return [{"device": "a", "driver": DRIVER, "pool": "n1", "conditions": [{**often, **each} for each in them]}]


@cases(
    "becomes, message",
    {
        "ready": (conditions(READY), None),
        "broken": (conditions(BROKEN), 'device binding failed: claim=c, reason=R, message="so"'),
        "never": (conditions(), "device binding timeout: context deadline exceeded"),
    },
)
@pytest.mark.feature("DynamicResources: binding conditions")
async def test_pre_bind_waits_for_binding_conditions(becomes, message):
    clock = Clock()
    cluster, client = world(
        claim("c", request()), slices=[CONDITIONAL], args=DynamicResourcesArgs(bindingTimeout="20s"), clock=clock
    )
    store = cluster.state.objects[RESOURCE_CLAIM]

    def prepare():
        current = store["default/c"]
        document = document_of(current)[1]
        document["status"]["devices"] = becomes
        document["metadata"]["resourceVersion"] = str(int(current.metadata.resourceVersion) + 1)
        store.set("default/c", RESOURCE_CLAIM.type.from_dict(document))

    clock.on_sleep.append(prepare)
    status = await bind(cluster, pod_with("c"))
    assert (status and status.message) == message
    (event,) = cluster.handle.events
    assert event.note == "waiting for binding conditions for device on node n1"
    assert client.transport.requests


@cases(
    "reserved, message",
    {
        "unreserved": ((), "deallocation of ResourceClaim completed"),
        "reserved for another pod": (("other",), "still not schedulable"),
    },
)
@pytest.mark.feature("DynamicResources: deallocation")
async def test_post_filter_deallocates_an_unavailable_claim(reserved, message):
    cluster, client = world(
        claim("c", request(), status=allocated("a", node="n2", reserved=reserved)),
        nodes=[make_node("n1"), make_node("n2")],
    )
    pod = pod_with("c")
    assert cluster.ask(pod, "n1").message == "resourceclaim not available on the node"
    result = cluster.plugin.post_filter(cluster.cycle, pod, None, None)
    assert (result.status.code, result.status.message) == (Code.UNSCHEDULABLE, message)
    await settled(cluster)
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert (now.status.allocation is None) == (not reserved)


@pytest.mark.feature("DynamicResources: deallocation")
async def test_pod_is_retried_when_the_release_of_its_claim_fails():
    cluster, client = world(
        claim("c", request(), status=allocated("a", node="n2")), nodes=[make_node("n1"), make_node("n2")]
    )
    fail(client, REFUSED)
    pod = pod_with("c")
    cluster.ask(pod)
    cluster.plugin.post_filter(cluster.cycle, pod, None, None)
    await settled(cluster)
    assert cluster.handle.activated == [pod]


@cases(
    "condition, timestamp, available",
    {
        "not ready yet": (conditions(), None, True),
        "broken": (conditions(BROKEN), None, False),
        "timed out": (conditions(), "2026-01-01T00:00:00Z", False),
        "ready": (conditions(READY), "2026-01-01T00:00:00Z", True),
    },
)
@pytest.mark.feature("DynamicResources: binding conditions")
def test_claim_with_unready_devices_is_unavailable(condition, timestamp, available):
    result = {"device": "a", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    more = {"allocationTimestamp": timestamp} if timestamp else {}
    status = {**allocated(result, **more), "devices": condition}
    cluster = Devices([device_class(), claim("c", request(), status=status)])
    answer = cluster.ask(pod_with("c"))
    assert (answer is None) == available


def test_claim_is_deallocated_in_memory_without_a_server():
    cluster = Devices(
        [make_node("n1"), device_class(), resource_slice("s", "a", node="n1"),
         claim("c", request(), status=allocated("a", node="n2"))]
    )  # fmt: skip
    pod = pod_with("c")
    cluster.ask(pod)
    cluster.plugin.post_filter(cluster.cycle, pod, None, None)
    assert cluster.gets(pod) == "r=a"
    cluster.ask(make_pod("q"))
    nothing = cluster.plugin.post_filter(cluster.cycle, make_pod("q"), None, None)
    assert nothing.status.message == "no new claims to deallocate"
    unasked = cluster.plugin.post_filter(CycleState(), make_pod("q"), None, None)
    assert (unasked.status.code, unasked.status.message) == (Code.ERROR, "not found")


@pytest.mark.feature("DynamicResources: extended resources")
async def test_claim_for_extended_resources_is_created_and_written_to_the_pod():
    pod = make_pod("p", resources={"example.com/gpu": "2"})
    clock = Clock()
    cluster, client = world(pod, classes=device_class(extendedResourceName="example.com/gpu"), clock=clock)
    cluster.reserve(pod)
    clock.on_sleep.append(lambda: deliver_claims(cluster, client))
    assert await cluster.plugin.pre_bind(cluster.cycle, pod, "n1") is None
    (made,) = (await client.list(RESOURCE_CLAIM)).items
    assert made.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [each.device for each in made.status.allocation.devices.results] == ["a", "b"]
    status = (await client.get(POD, "p", "default")).status.extendedResourceClaimStatus
    assert status.resourceClaimName == made.metadata.name
    assert [(each.containerName, each.resourceName, each.requestName) for each in status.requestMappings] == [
        ("main", "example.com/gpu", "container-0-request-0")
    ]
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    await settled(cluster)
    assert (await client.list(RESOURCE_CLAIM)).items == []


@cases(
    "failures, uses", {"written": (0, ["update", "update"]), "failed, so the reservation still exists": (1, ["update"])}
)
@pytest.mark.feature("DynamicResources: binding")
async def test_pre_bind_waits_for_pending_writes_of_an_earlier_attempt(failures, uses):
    cluster, client = world(claim("c", request()))
    pod = pod_with("c")
    assert await bind(cluster, pod) is None
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    client.transport.requests.clear()
    if failures:
        fail(client, REFUSED, times=failures)
    cluster.reserve(pod)
    again = asyncio.create_task(cluster.plugin.pre_bind(cluster.cycle, pod, "n1"))
    await asyncio.sleep(0)
    assert not client.transport.requests
    await settled(cluster)
    assert await again is None
    assert [verb for verb, _, _ in written(client)] == uses
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert [each.uid for each in now.status.reservedFor] == [pod.uid]


# Claims that the members of a gang share


def members_of(cluster, *names, node="n1"):
    """Reserve a claim for pods of one gang. Returns their cycles."""
    gang, cycles = Gang("crew", (), len(names)), {}
    for name in names:
        pod, cycle = pod_with("c", name=name), CycleState()
        cycle.data[PLACED_WITH] = gang
        assert cluster.plugin.pre_filter(cycle, pod, cluster.state.nodes) is None
        cluster.cycle = cycle
        assert cluster.filter(pod, node) is None
        assert cluster.plugin.reserve(cycle, pod, node) is None
        cycles[name] = cycle
    return cycles


@pytest.mark.feature("DynamicResources: gangs")
async def test_members_write_the_claim_that_they_share_once():
    cluster, client = world(claim("c", request()))
    cycles = members_of(cluster, "p", "q", "r")
    bindings = (cluster.plugin.pre_bind(cycle, pod_with("c", name=name), "n1") for name, cycle in cycles.items())
    assert await asyncio.gather(*bindings) == [None, None, None]
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert [each.device for each in now.status.allocation.devices.results] == ["a"]
    assert sorted(each.name for each in now.status.reservedFor) == ["p", "q", "r"]
    assert not cluster.plugin._allocations._in_flight


@pytest.mark.feature("DynamicResources: gangs")
async def test_an_allocation_is_kept_until_the_last_member_has_failed():
    cluster, client = world(claim("c", request()), claim("d", request(count=2)))
    cycles = members_of(cluster, "p", "q")
    fail(client, REFUSED)
    pod, other = pod_with("c", name="p"), pod_with("c", name="q")
    assert (await cluster.plugin.pre_bind(cycles["p"], pod, "n1")).code is Code.ERROR
    for _ in range(2):
        cluster.plugin.unreserve(cycles["p"], pod, "n1")
    assert cluster.gets(pod_with("d", name="x")) == "cannot allocate all claims"
    stranger = cluster.plugin.pre_filter(CycleState(), pod, cluster.state.nodes)
    assert stranger.message == "resource claim default/c is in the process of being allocated"
    assert await cluster.plugin.pre_bind(cycles["q"], other, "n1") is None
    now = await client.get(RESOURCE_CLAIM, "c", "default")
    assert [each.name for each in now.status.reservedFor] == ["q"]


@pytest.mark.feature("DynamicResources: gangs")
def test_members_use_a_shared_claim_where_its_devices_are():
    cluster, _ = world(claim("c", request()), claim("d", request(count=2)), nodes=[make_node("n1"), make_node("n2")])
    cycles = members_of(cluster, "p")
    cluster.cycle = cycle = CycleState()
    cycle.data[PLACED_WITH] = cycles["p"].data[PLACED_WITH]
    other = pod_with("c", name="q")
    assert cluster.plugin.pre_filter(cycle, other, cluster.state.nodes) is None
    assert cluster.filter(other, "n1") is None
    assert cluster.filter(other, "n2").message == "resourceclaim not available on the node"
    assert cluster.plugin.post_filter(cycle, other, None, None).status.message == "still not schedulable"
    cluster.plugin.release(cycles["p"], pod_with("c", name="p"), "n1")
    assert cluster.gets(pod_with("d", name="x")) == "r=a,r=b"


@pytest.mark.feature("DynamicResources: gangs")
def test_release_writes_nothing():
    pod = pod_with("c")
    cluster, client = world(claim("c", request(), status=allocated("a", node="n1", reserved=[pod.uid])))
    cluster.reserve(pod)
    cluster.plugin.release(cluster.cycle, pod, "n1")
    assert (cluster.handle.started, written(client)) == ([], [])
    cluster.plugin.unreserve(cluster.cycle, pod, "n1")
    assert len(cluster.handle.started) == 1
