"""Whether a scheduler is alive, on a page and for programs and assistants that follow a cluster over sockets."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from served_page import served
from tests.support.assistants import assistant, called
from tests.support.served_questions import served as served_programs
from tests.support.waiting import until

from bayplan.answers.snapshots.rights import ROLE, cluster_role
from bayplan.client import connect
from bayplan.core.api.kinds import LEASE, NODE
from bayplan.core.api.times import micro_time
from bayplan.faces.asking import asking, sources
from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.sources import ClusterSource, FileSource
from bayplan.insight import Insight, Snapshot
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer, Fault
from bayplan_devcluster.in_memory import InMemoryClient

ALIVE = "it runs: its lease kube-system/kube-scheduler was renewed"
DEAD = "it seems not to run: its lease kube-system/kube-scheduler was last renewed at"
DOCTOR = "/questions/doctor?asked=yes"


def renewed(**ago):
    return {
        "holderIdentity": "control-1",
        "leaseDurationSeconds": 15,
        "renewTime": micro_time(datetime.now(UTC) - timedelta(**ago)),
    }


def lease(**ago):
    return {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": renewed(**ago)}


@asynccontextmanager
async def cluster(tmp_path, *faults):
    """A client of an API server on a socket, and the server. Its scheduler has renewed its lease just now."""
    kubeconfig = tmp_path / "kubeconfig"
    async with ApiServer() as server:
        load(server, make_node("a"), make_pod("web", node="a"))
        for fault in faults:
            server.faults.add(fault)
        kubeconfig.write_text(server.kubeconfig())
        async with connect(kubeconfig) as client:
            await client.create(LEASE, lease(seconds=0), "kube-system")
            yield client, server


async def renew(client, **ago):
    await client.patch(LEASE, "kube-scheduler", {"spec": renewed(**ago)}, "kube-system")


async def test_page_serve_and_assistants_read_the_lease_when_they_are_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "FRESH", 0.0)
    async with cluster(tmp_path) as (client, _):
        page, program, model = (ClusterSource(client, "the cluster") for _ in range(3))
        async with (
            served(page) as visitor,
            served_programs(program) as caller,
            assistant(source=model) as helper,
        ):

            async def texts():
                yield (await visitor.page(DOCTOR)).text
                yield (await caller.ask("doctor"))["schedulers"][0]["text"]
                yield (await called(helper, "doctor"))[1]["schedulers"][0]["text"]

            assert [text async for text in texts() if ALIVE not in text] == []
            versions = [source.version for source in (page, program, model)]
            await renew(client, minutes=9)
            assert [text async for text in texts() if DEAD not in text] == []
            assert [source.version for source in (page, program, model)] == versions


async def test_transaction_has_the_leases_of_its_beginning(tmp_path):
    async with cluster(tmp_path) as (client, _), served_programs(ClusterSource(client)) as caller:

        async def begin():
            return f"/v1/transactions/{(await caller.call('POST', '/v1/transactions', {}, 201))['id']}"

        async def text(path):
            return (await caller.call("POST", f"{path}/questions/doctor", {}))["schedulers"][0]["text"]

        early = await begin()
        assert ALIVE in await text(early)
        await renew(client, minutes=9)
        late = await begin()
        assert DEAD in await text(late)
        await caller.call("POST", f"{early}/change", {"addNodes": ["1xlike:a"]})
        assert ALIVE in await text(early)


async def test_leases_are_not_older_than_the_time_of_their_snapshot(tmp_path):
    async with cluster(tmp_path) as (client, _):
        source = ClusterSource(client)
        async with following(source):
            before = source.snapshot()
            begun = datetime.now(UTC)
            found = await source.with_leases()
            assert found.of_kind(NODE) is before.of_kind(NODE)
            assert list(found.of_kind(LEASE)) == ["kube-system/kube-scheduler"]
            assert begun <= found.taken <= begun + timedelta(seconds=sources.LISTED_WITHIN)
            assert source.snapshot() is before


@asynccontextmanager
async def following(source):
    running = asyncio.create_task(source.run())
    try:
        await asyncio.wait_for(source.ready(), 10)
        yield
    finally:
        running.cancel()


async def test_other_answers_are_kept_and_answers_about_leases_for_a_moment(tmp_path, monkeypatch):
    async with cluster(tmp_path) as (client, _):
        source = ClusterSource(client)
        one, counts = Asking(source, Insight(Snapshot())), {"doctor": 0, "usage": 0}

        def ask(name, ages):
            def question(insight, _):
                counts[name] += 1
                return [each.alive for each in insight.doctor().schedulers]

            return one.ask(name, question, ages=ages)

        async with following(source):
            for _ in range(3):
                assert await ask("doctor", ages=True) == [True]
                await ask("usage", ages=False)
                await renew(client, minutes=9)
            assert counts == {"doctor": 1, "usage": 1}
            monkeypatch.setattr(asking, "FRESH", 0.0)
            assert await ask("doctor", ages=True) == [False]
            await ask("usage", ages=False)
            assert counts == {"doctor": 2, "usage": 1}
        one.close()


async def test_answer_about_a_file_does_not_age(monkeypatch):
    monkeypatch.setattr(asking, "FRESH", 0.0)
    one, answers = Asking(FileSource(Snapshot()), Insight(Snapshot())), iter("ab")
    for _ in range(2):
        assert await one.ask("doctor", lambda *_: next(answers), ages=True) == "a"
    one.close()


REFUSED = {
    "no right": (Fault(resource="leases", verb="list", answer=403), "no right to list leases"),
    "an error": (Fault(resource="leases", verb="list", answer=500), "cannot be listed (500"),
    "no reply": (Fault(resource="leases", verb="list", hang=True), "the API server did not list leases.coordination"),
}


@pytest.mark.parametrize(("fault", "reason"), REFUSED.values(), ids=REFUSED)
async def test_server_that_refuses_leases_costs_one_sentence(tmp_path, monkeypatch, fault, reason):
    monkeypatch.setattr(sources, "LISTED_WITHIN", 0.2)
    async with cluster(tmp_path, fault) as (client, server), served(ClusterSource(client)) as visitor:
        page = await visitor.page(DOCTOR)
        assert f"its lease isn't known: {reason}" in page.text
        assert "every pod has a node" in page.text
        assert "leases" not in (await visitor.page("/")).text
        server.faults.clear()


async def test_lost_cluster_is_no_dead_scheduler(tmp_path):
    async with cluster(tmp_path) as (client, server):
        source = ClusterSource(client)
        async with following(source):
            taken = source.snapshot().taken
            await server.stop()
            await until(lambda: source.lost)
            found = await source.with_leases()
    assert found.taken == taken
    assert [gap.kind for gap in found.gaps] == [LEASE]


async def test_role_of_the_manifests_allows_reading_leases():
    server = ApiServer(address=None, alpha=True, rbac=True, tokens={"token": "reader"})
    load(server, make_node("a"))
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    header = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE}}
    ref = {"kind": "ClusterRole", "name": ROLE, "apiGroup": "rbac.authorization.k8s.io"}
    server.load([cluster_role(), header | {"subjects": [subject], "roleRef": ref}])
    source = ClusterSource(InMemoryClient(server, token="token"))
    async with following(source):
        assert (await source.with_leases()).gaps == ()
