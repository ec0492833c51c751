"""Leader election in virtual time. There are never two leaders."""

import asyncio
import heapq
import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import cases
from tests.support.waiting import PATIENCE, turns

from bayplan.client import TransportError
from bayplan.core.api.kinds import EVENT, LEASE
from bayplan.running.client.leader_election import LeaderElectionSettings, LeaderElector
from bayplan.running.service.fenced_client import FencedClient
from bayplan.running.service.leader_election import ElectionThread
from bayplan.testing.in_memory import make_client
from bayplan_devcluster.apiserver import Fault
from bayplan_devcluster.in_memory import InMemoryClient


class Time:
    """Virtual time, which passes while all tasks sleep."""

    def __init__(self):
        self.now = 100.0
        self._sleepers = []
        self._count = itertools.count()

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._count), woken))
        await woken

    async def pass_until(self, moment, watch=lambda: None):
        await turns(60)
        while self._sleepers and self._sleepers[0][0] <= moment:
            self.now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await turns(60)
            watch()
        self.now = moment
        watch()


class WallClock:
    """A wall clock that is wrong by `skew` seconds, which may change."""

    def __init__(self, time, skew=0.0):
        self.time, self.skew = time, skew

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time.now + self.skew)


class Candidate:
    """An elector with its own client. `fail` adds a fault to its connection."""

    def __init__(self, name, server, time, skew=0.0):
        self.client = InMemoryClient(server, retries=0)
        self.wall = WallClock(time, skew)
        self.elector = LeaderElector(
            self.client, name, elapsed=lambda: time.now, clock=self.wall, sleep=time.sleep, rng=random.Random(name)
        )
        self.task = asyncio.create_task(self._run())
        self.lost = False

    async def _run(self):
        await self.elector.acquire()
        await self.elector.hold()
        self.lost = True

    def fail(self, **fault):
        self.client.transport.faults.add(Fault(**fault))

    def recover(self):
        self.client.transport.reachable = True
        self.client.transport.faults.clear()

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def world():
    time, client = Time(), make_client()
    candidates = []

    def candidate(name, skew=0.0):
        candidates.append(Candidate(name, client.server, time, skew))
        return candidates[-1]

    yield time, client, candidate
    for each in candidates:
        await each.stop()


async def spec(client):
    return (await client.get(LEASE, "kube-scheduler", "kube-system")).spec


async def leader_and_other(time, candidate, skew=0.0):
    """Two candidates, of which the first leads at 150."""
    one = candidate("one")
    await time.pass_until(101)
    two = candidate("two", skew)
    await time.pass_until(150)
    return one, two


async def test_first_candidate_keeps_the_lease(world):
    time, client, candidate = world
    one = candidate("one")
    await time.pass_until(100)
    two = candidate("two")
    await time.pass_until(400)
    assert (one.elector.leads(), two.elector.leads(), two.elector.leader) == (True, False, "one")
    current = await spec(client)
    assert (current.holderIdentity, current.leaseDurationSeconds, current.leaseTransitions) == ("one", 15, 0)
    assert current.renewTime - current.acquireTime > timedelta(seconds=290)
    (event,) = (await client.list(EVENT, "kube-system")).items
    assert (event.reason, event.note, event.regarding.kind) == ("LeaderElection", "one became leader", "Lease")


async def test_another_candidate_takes_over_an_expired_lease(world):
    time, client, candidate = world
    one = candidate("one")
    await time.pass_until(101)
    two = candidate("two")
    await time.pass_until(200)
    await one.stop()
    died = time.now
    await time.pass_until(died + 10.1)
    assert (one.elector.leads(), two.elector.leads()) == (False, False)
    await time.pass_until(died + 15 + 2 * 2.2 * 2)
    assert two.elector.leads()
    current = await spec(client)
    assert (current.holderIdentity, current.leaseTransitions) == ("two", 1)


async def test_released_lease_is_acquired_at_once(world):
    time, _, candidate = world
    one, two = await leader_and_other(time, candidate)
    await one.stop()
    await one.elector.release()
    assert not one.elector.leads()
    await time.pass_until(150 + 2 * 2.2)
    assert two.elector.leads()


async def test_leader_that_cannot_renew_stops_before_another_starts(world):
    time, _, candidate = world
    one, two = await leader_and_other(time, candidate)
    one.fail(drop="before")
    await time.pass_until(150 + 10)
    assert not one.elector.leads()
    assert not two.elector.leads()
    await time.pass_until(150 + 30)
    assert one.lost
    assert two.elector.leads()


@cases("drop", {"lost request": "before", "lost response": "after"})
async def test_short_outage_keeps_the_lease(world, drop):
    time, client, candidate = world
    one = candidate("one")
    await time.pass_until(150)
    one.fail(verb="update", drop=drop, times=2)
    await time.pass_until(200)
    assert one.elector.leads()
    assert (await spec(client)).leaseTransitions == 0


async def test_leader_stops_when_another_holder_is_seen(world):
    time, client, candidate = world
    one = candidate("one")
    await time.pass_until(150)
    patch = {"spec": {"holderIdentity": "thief", "renewTime": "2026-01-01T00:00:00.000001Z"}}
    await client.patch(LEASE, "kube-scheduler", patch, "kube-system")
    await time.pass_until(153)
    assert one.lost
    assert not one.elector.leads()


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
async def test_wrong_wall_clocks_have_no_effect(world, skew):
    time, _, candidate = world
    one, two = await leader_and_other(time, candidate, skew)
    one.wall.skew = -skew
    await time.pass_until(300)
    assert one.elector.leads()
    assert not two.elector.leads()


@settings(max_examples=60)
@given(data=st.data())
def test_there_are_never_two_leaders(data):
    async def run():
        time, server = Time(), make_client().server
        candidates = [Candidate(name, server, time, skew) for name, skew in (("a", 0), ("b", 900), ("c", -900))]
        led = set()

        def watch():
            leaders = [each.elector.identity for each in candidates if each.elector.leads()]
            assert len(leaders) <= 1
            led.update(leaders)

        for _ in range(data.draw(st.integers(3, 12))):
            victim = candidates[data.draw(st.integers(0, 2))]
            match data.draw(st.sampled_from(["fail", "lose", "conflict", "stop", "recover", "nothing"])):
                case "fail":
                    victim.client.transport.reachable = False
                case "lose":
                    victim.fail(verb="update", drop="after", times=data.draw(st.integers(1, 9)))
                case "conflict":
                    victim.fail(verb="update", answer=409, reason="Conflict", times=3)
                case "stop":
                    await victim.stop()
                    candidates[candidates.index(victim)] = Candidate(victim.elector.identity + "'", server, time)
                case "recover":
                    victim.recover()
            await time.pass_until(time.now + data.draw(st.floats(0.1, 25)), watch)
        for each in candidates:
            each.recover()
        await time.pass_until(time.now + 60, watch)
        assert led
        for each in candidates:
            await each.stop()

    asyncio.run(run())


async def test_fenced_client_writes_only_for_the_leader():
    leads = [False]
    metadata = {"name": "x", "namespace": "default"}
    lease = {"kind": LEASE.kind, "apiVersion": LEASE.api_version, "metadata": metadata}
    client = FencedClient(make_client(lease), lambda: leads[0])
    assert (await client.get(LEASE, "x")).metadata.name == "x"
    with pytest.raises(TransportError, match="is not the leader"):
        await client.delete(LEASE, "x")
    leads[0] = True
    await client.delete(LEASE, "x")


@cases("expires", {"released": False, "a write is unknown": True})
async def test_leadership_thread_acquires_and_releases_the_lease(caplog, expires):
    client = make_client()

    quick = LeaderElectionSettings(lease_duration=1, renew_deadline=0.5, retry_period=0.05)
    async with ElectionThread(lambda: InMemoryClient(client.server), quick, "one") as one, asyncio.timeout(PATIENCE):
        await one.acquired.wait()
        assert one.leads()
        async with ElectionThread(lambda: InMemoryClient(client.server), quick, "two") as two:
            assert not two.leads()
        if expires:
            one.let_expire()
    assert not one.leads()
    assert one.lost.is_set()
    assert (await spec(client)).holderIdentity == ("one" if expires else "")
    assert ("the lease is not released" in caplog.text) == expires
