"""A shadow beside Bayplan's own scheduler: all decisions are equal. And what it does about gaps and denials."""

import asyncio
import random
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from shadowed import configured, nodes
from tests.support.stories import NAME, in_virtual_time, scheduling
from tests.support.waiting import until

from bayplan.answers.backtest.decisions import ask_again
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.history.reading import History
from bayplan.answers.history.recording import HistoryRecorder
from bayplan.answers.insight.prices import Prices
from bayplan.answers.shadow.comparisons import ShadowCause, ShadowSubject
from bayplan.answers.shadow.following import ShadowError, ShadowFollower
from bayplan.answers.shadow.moments import SearchBudget
from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.simulation.usual import usual_configuration
from bayplan.answers.simulation.world import World
from bayplan.client import ClusterAccess, HttpClient
from bayplan.core.api.kinds import NODE, POD
from bayplan.foundations.clock import ManualClock
from bayplan.foundations.turns import Turn
from bayplan.running.client import list_watch
from bayplan.testing import make_node, make_pod, spread_over
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.running import running_scheduler
from bayplan_devcluster.apiserver import ApiServer, Fault

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


class Followed:
    def __init__(self, client, configuration=None, **options):
        theirs = None if configuration is None else (usual_configuration(()), ())
        self.shadow = Shadow(World(configuration), {NAME}, configuration, theirs)
        self.found = []
        self.follower = ShadowFollower(client, self.shadow, self.found.append, names=[NAME], **options)

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.follower.run())
        synced = asyncio.create_task(self.follower.synced.wait())
        try:
            async with asyncio.timeout(30):
                await asyncio.wait((task, synced), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield self
            self.follower.finish()
        finally:
            task.cancel()
            synced.cancel()
            await asyncio.wait((task, synced))

    @property
    def odd(self):
        """What isn't equal, or has an unknown cause."""
        return [each for each in self.found if not each.equal or each.cause is ShadowCause.UNKNOWN]


def test_watches_have_the_clock_of_their_owner(monkeypatch):
    """In virtual time, the order of events doesn't depend on the machine."""
    clocks = []

    class Noted(Turn):
        def __init__(self, monotonic=time.monotonic):
            clocks.append(monotonic)
            super().__init__(monotonic)

    monkeypatch.setattr(list_watch, "Turn", Noted)

    async def story():
        loop = asyncio.get_running_loop()
        async with scheduling(*nodes(1)) as there:
            assert len(clocks) > 2
            assert {*clocks} == {loop.monotonic}
            clocks.clear()
            async with Followed(there.client, clock=loop).running():
                assert len(clocks) > 2
                assert {*clocks} == {loop.monotonic}

    in_virtual_time(story())


@pytest.mark.parametrize("seed", range(3))
async def test_bayplan_equals_itself_with_churn(here, seed):
    """Pods come and go and fail, and nodes come and are cordoned."""
    rng, loop = random.Random(seed), asyncio.get_running_loop()
    for number in range(6):
        load(here.client.server, make_node(f"node-{number}", cpu="4", labels={"zone": f"z{number % 3}"}))
    alive = []
    async with Followed(here.client, clock=loop).running() as followed:
        for step in range(60):
            names = [f"pod-{step}-{number}" for number in range(rng.randint(1, 4))]
            for name in names:
                spread = [spread_over("zone", {"app": "a"}, hard=False)] if rng.random() < 0.3 else ()
                fields = {"spread": spread, "labels": {"app": rng.choice("ab")}}
                spec = {"terminationGracePeriodSeconds": 0}
                load(here.client.server, make_pod(name, cpu=rng.choice(("100m", "500m", "1500m")), spec=spec, **fields))
            alive += names
            await asyncio.sleep(rng.choice((0, 0, 0.01, 0.3)))
            while len(alive) > 28:
                await here.client.delete(POD, alive.pop(rng.randrange(len(alive))), "default")
            if step % 10 == 5:
                await here.client.patch(NODE, f"node-{rng.randrange(6)}", {"spec": {"unschedulable": step % 20 == 5}})
            if step % 20 == 10:
                load(here.client.server, make_node(f"more-{step}", cpu="6", labels={"zone": "z0"}))
        load(here.client.server, make_pod("huge", cpu="64"))
        await asyncio.sleep(30)
    tally = followed.shadow.tally
    assert followed.odd == []
    assert tally.share() == 1.0
    assert tally.total(ShadowSubject.BINDING) > 60
    assert tally.total(ShadowSubject.FAILURE) > 0
    assert tally.caused_by(ShadowCause.RACE) > 0
    assert tally.missed == 0


async def test_preemptions_are_equal(here):
    load(here.client.server, *nodes(4))
    async with Followed(here.client, clock=asyncio.get_running_loop()).running() as followed:
        spec = {"terminationGracePeriodSeconds": 0}
        load(here.client.server, *(make_pod(f"low-{number}", cpu="2", spec=spec) for number in range(8)))
        await asyncio.sleep(5)
        for number in range(4):
            load(here.client.server, make_pod(f"high-{number}", cpu="2", priority=10))
            await asyncio.sleep(5)
    tally = followed.shadow.tally
    assert followed.odd == []
    assert tally.total(ShadowSubject.NOMINATION) == 4
    assert [len(each.their_victims) for each in followed.found if each.subject is ShadowSubject.NOMINATION] == [1] * 4


async def test_another_configuration_differs_for_exactly_the_pods_that_a_replay_names(tmp_path):
    """The pods are such that no two nodes are equal for the scheduler, so that the replay decides as it did."""
    candidate = configured(tmp_path, MOST_ALLOCATED)
    async with ApiServer() as server, HttpClient(server.url) as client:
        load(server, *(make_node(f"node-{number}", cpu=str(4 + number)) for number in range(4)))
        recorder = HistoryRecorder(client, tmp_path / "history", "cluster test")
        recording = asyncio.create_task(recorder.run())
        await recorder.synced.wait()
        async with (
            Followed(client, candidate).running() as followed,
            running_scheduler(ClusterAccess(server=server.url), scheduler_name=NAME),
        ):
            for number in range(16):
                await client.create(POD, as_sent(make_pod(f"pod-{number}", cpu=f"{137 + 278 * (number % 4)}m"))[1])
                await until(lambda number=number: followed.shadow.tally.total() + followed.shadow.waiting > number)
            await until(lambda: followed.shadow.tally.total(ShadowSubject.BINDING) == 16)
        recording.cancel()
        await asyncio.wait((recording,))
    history = History.open(tmp_path / "history")
    replayed = ask_again(
        history, Lookahead(history, Prices({}).of), SimulatedScheduler(), SimulatedScheduler(candidate, ())
    ).differences
    different = [each for each in followed.found if not each.equal]
    assert {each.pod for each in different} == {each.pod for each in replayed} != set()
    assert {each.cause for each in different} == {ShadowCause.CONFIGURATION}


async def test_what_is_listed_again_after_a_gap_is_counted_and_not_compared():
    client = make_client(*nodes(2), make_pod("first"), make_pod("second"))
    followed = Followed(client)
    async with followed.running():
        await client.bind("default", "first", "node-0")
        await until(lambda: followed.shadow.tally.total() == 1)
        client.transport.faults.add(Fault(verb="watch", resource="pods", answer=410, reason="Expired", times=1))
        client.transport.end_streams()
        await client.bind("default", "second", "node-1")
        await until(lambda: followed.shadow.tally.missed)
    assert (followed.shadow.tally.total(), followed.shadow.tally.missed) == (1, 1)


async def test_pods_that_were_bound_while_no_shadow_ran_are_counted():
    begin = datetime.now(UTC)
    client = make_client(*nodes(1))
    load(client.server, make_pod("old", node="node-0"))
    for name in ("new", "newer"):
        await client.create(POD, as_sent(make_pod(name))[1])
    await client.bind("default", "new", "node-0")
    followed = Followed(client, since=begin - timedelta(seconds=2))
    async with followed.running():
        pass
    assert followed.shadow.tally.missed == 1


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_pods_that_may_not_be_read_end_it(verb):
    client = make_client(*nodes(1))
    client.transport.faults.add(Fault(verb=verb, resource="pods", answer=403, reason="Forbidden", message="no right"))
    with pytest.raises(ShadowError, match="cannot read the pods: 403 Forbidden: no right"):
        async with Followed(client).running():
            await asyncio.sleep(5)


async def test_another_kind_that_may_not_be_read_is_named_with_what_it_costs(caplog):
    client = make_client(*nodes(1))
    client.transport.faults.add(Fault(resource="services", answer=403, reason="Forbidden", message="no right"))
    async with Followed(client).running() as followed:
        await asyncio.sleep(0)
    assert followed.found == []
    (line,) = [each.getMessage() for each in caplog.records if "services" in each.getMessage()]
    assert line == ("services: 403 Forbidden: no right: the default topology spreading of its pods is not considered")


async def test_a_server_that_is_away_is_one_line(caplog):
    client = make_client(*nodes(2), make_pod("first"))
    async with Followed(client).running() as followed:
        caplog.clear()
        client.transport.reachable = False
        client.transport.end_streams(broken=True)
        await until(lambda: len(followed.follower.problems) > 10)
        client.transport.reachable = True
        await until(lambda: not followed.follower.problems, within=20)
        await client.bind("default", "first", "node-0")
        await until(lambda: followed.shadow.tally.total() + followed.shadow.tally.missed)
    lines = [each.getMessage() for each in caplog.records if each.name == "bayplan.answers.shadow.following"]
    assert len(lines) == 1
    assert lines[0].startswith("pods: ")
    assert "connection refused" in lines[0]


async def test_a_node_that_cannot_be_read_is_named_and_left_out(caplog):
    client = make_client(*nodes(2))
    async with Followed(client).running() as followed:
        await client.create(POD, as_sent(make_pod("good"))[1])
        followed.follower.put(NODE, "bad", make_node("bad", cpu="many"), gap=False)
        await client.bind("default", "good", "node-0")
        await until(lambda: followed.shadow.tally.total() == 1)
        await until(lambda: "Node bad is left out" in caplog.text)
    assert followed.shadow.world.contents.problems == []
    assert followed.odd == []


class Slow:
    """A shadow on a clock of its own, which each comparison moves on."""

    def __init__(self, client, seconds):
        self.clock = ManualClock()
        self.followed = Followed(client, clock=self.clock)
        shadow, put = self.followed.shadow, self.followed.shadow.put

        def slow(*arguments, compared=True, **more):
            if compared:
                self.clock.advance(seconds)
            return put(*arguments, compared=compared, **more)

        shadow.put = slow

    def see(self, *pods):
        """Pods arrive, and are bound right after; nothing is taken in meanwhile."""
        for name in pods:
            for node in ("", "node-0"):
                document = {**as_sent(make_pod(name, node=node))[1], "status": {}}
                document["metadata"]["uid"] = f"uid-{name}"
                pod = self.followed.follower.decode(POD, msgspec.json.encode(document))
                self.followed.follower.put(POD, pod.key, pod, gap=False)


async def test_a_shadow_that_falls_behind_says_so_counts_what_it_misses_and_catches_up(caplog):
    slow = Slow(make_client(*nodes(1)), seconds=1.0)
    async with slow.followed.running() as followed:
        slow.see(*(f"pod-{number}" for number in range(20)))
        assert followed.follower.late == 0.0
        await until(lambda: not len(followed.follower._backlog))
        tally = followed.shadow.tally
        assert (tally.total(), tally.missed) == (3, 17)
        slow.see("next")
        await until(lambda: tally.total() == 4)
    assert [each.getMessage() for each in caplog.records if "shadow" in each.getMessage()] == [
        "the shadow is 6 s behind the cluster: decisions are counted as missed until it has caught up",
        "the shadow has caught up: 17 decisions missed",
    ]
    assert {each.time for each in followed.found[:3]} == {ManualClock().now()}, "when they were seen, not taken in"


async def test_what_still_waits_at_the_end_is_counted(caplog):
    slow = Slow(make_client(*nodes(1)), seconds=0.0)
    async with slow.followed.running() as followed:
        slow.see("early", "late")
        slow.clock.advance(94)
        assert followed.follower.late == 94.0
        followed.follower.finish()
    assert (followed.shadow.tally.total(), followed.shadow.tally.missed) == (0, 2)
    assert "the shadow ended 94 s behind the cluster: 2 decisions missed" in caplog.messages


async def test_news_that_arrive_late_are_counted_whatever_the_clock_says():
    """The clock of the server is ten minutes ahead, so that only the difference to other news tells."""
    clock = ManualClock()
    followed = Followed(make_client(*nodes(1)), clock=clock)
    async with followed.running():
        for name, age in (("now", -600), ("late", -540), ("again", -600)):
            pods = []
            for node in ("", "node-0"):
                time = f"{clock.now() - timedelta(seconds=age):%Y-%m-%dT%H:%M:%SZ}"
                conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]
                document = {**as_sent(make_pod(name, node=node))[1], "status": {"conditions": conditions}}
                document["metadata"]["uid"] = f"uid-{name}"
                pods.append(followed.follower.decode(POD, msgspec.json.encode(document)))
            for pod in pods:
                followed.follower.put(POD, pod.key, pod, gap=False)
        await until(lambda: followed.shadow.tally.total() + followed.shadow.tally.missed == 3)
    assert ([each.pod for each in followed.found], followed.shadow.tally.missed) == (
        ["default/now", "default/again"],
        1,
    )


async def test_credentials_that_are_refused_for_a_while_are_a_gap(caplog):
    client = make_client(*nodes(2), make_pod("first"), make_pod("second"), make_pod("third"))
    followed = Followed(client)
    async with followed.running():
        await client.bind("default", "first", "node-0")
        await until(lambda: followed.shadow.tally.total() == 1)
        caplog.clear()
        client.transport.faults.add(Fault(verb="watch", answer=401, reason="Unauthorized", message="expired"))
        client.transport.end_streams()
        await until(lambda: len(followed.follower.problems) > 3)
        await client.bind("default", "second", "node-1")
        client.transport.faults.clear()
        await until(lambda: not followed.follower.problems, within=30)
        await until(lambda: followed.shadow.tally.missed, within=30)
        await client.bind("default", "third", "node-1")
        await until(lambda: followed.shadow.tally.total() == 2)
        await until(lambda: "accepts the credentials again, after" in caplog.text)
    assert followed.shadow.tally.missed == 1
    lines = [each.getMessage() for each in caplog.records if each.name == "bayplan.answers.shadow.following"]
    assert len(lines) == 2
    assert lines[0].startswith("401 Unauthorized: expired")
    assert lines[0].endswith(": decisions are counted as missed until the server accepts the credentials again")
    assert lines[1].startswith("the server accepts the credentials again, after ")
    assert lines[1].endswith(" s: 1 decision missed")


async def test_rights_that_are_lost_later_do_not_end_it(caplog):
    client = make_client(*nodes(2), make_pod("first"))
    followed = Followed(client)
    async with followed.running():
        await client.bind("default", "first", "node-0")
        await until(lambda: followed.shadow.tally.total() == 1)
        client.transport.faults.add(Fault(verb="watch", resource="pods", answer=403, reason="Forbidden", times=1))
        client.transport.end_streams()
        await until(lambda: "pods: 403 Forbidden" in caplog.text)
        await until(lambda: not followed.follower.problems, within=30)


async def test_one_object_that_cannot_be_handled_does_not_stop_the_others(caplog):
    client = make_client(*nodes(2))
    async with Followed(client).running() as followed:
        followed.follower.put(POD, "default/odd", object(), gap=False)
        await client.create(POD, as_sent(make_pod("good"))[1])
        await client.bind("default", "good", "node-0")
        await until(lambda: followed.shadow.tally.total() == 1)
    assert "handling a change of pods" in caplog.text


async def test_decisions_that_take_long_are_asked_for_less_often():
    """Each takes 10 ms, so that 40 of them are asked for in a second."""
    budget = SearchBudget()
    budget.limit(600)
    budget.pass_time(0.0)
    assert all(budget.spend() for _ in range(100))
    budget.measure(1.0)
    for _ in range(1000):
        budget.spend()
    assert not budget.spend()
    budget.measure(0.0)
    budget.pass_time(1.0)
    assert [budget.spend() for _ in range(41)] == [True] * 40 + [False]
