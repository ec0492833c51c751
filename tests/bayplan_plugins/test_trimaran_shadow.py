"""A shadow beside a scheduler with measured loads: it asks the sources itself, and says so when one gives no answer."""

import asyncio
import json
import logging
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.bayplan_plugins.test_trimaran_loads import serving, watched
from tests.support.stories import NAME, in_virtual_time, scheduling
from tests.support.waiting import until

from bayplan.answers.shadow.comparisons import ShadowCause
from bayplan.answers.shadow.following import ShadowFollower
from bayplan.answers.shadow.record import ShadowRecord
from bayplan.answers.shadow.report import write_shadow_report
from bayplan.answers.shadow.shadow import Shadow
from bayplan.answers.shadow.shown import line_of, summary
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import feeds
from bayplan.client import ClusterAccess, HttpClient
from bayplan.core.config import build_profiles, parse_configuration
from bayplan.testing import make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan.testing.running import running_scheduler
from bayplan_devcluster.apiserver import ApiServer
from bayplan_plugins.trimaran import loads
from bayplan_plugins.trimaran.sources import LoadReport, LoadSource, NodeLoad, SourceError

NODES = [make_node(name, cpu="4") for name in "abc"]
ADDRESS = "http://watcher:2020"
SOURCE = f"load-watcher at {ADDRESS}"


def configuration(address=ADDRESS):
    profile = {
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 100}]}},
        "pluginConfig": [{"name": "TargetLoadPacking", "args": {"watcherAddress": address}}],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return parse_configuration({**head, "profiles": [{"schedulerName": NAME, **profile}]})


@asynccontextmanager
async def shadowing(client, parsed, clock=None):
    """A shadow, and what it finds."""
    shadow, found = Shadow(World(parsed), {NAME}, parsed), []
    follower = ShadowFollower(client, shadow, found.append, names=[NAME], clock=clock)
    task = asyncio.create_task(follower.run())
    try:
        await follower.synced.wait()
        yield follower, found
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def shadowed():
    """A scheduler, and a shadow beside it that has the same configuration and begins later, in virtual time."""
    parsed, clock = configuration(), asyncio.get_running_loop()
    async with scheduling(*NODES, build=lambda handle: build_profiles(parsed, handle)) as here:
        await asyncio.sleep(13)
        async with shadowing(here.client, parsed, clock) as (follower, found):
            yield here, follower, found


class Watcher:
    """A load-watcher in virtual time, whose loads are others every 40 seconds. `problem`: why it gives none."""

    def __init__(self, monkeypatch):
        self.problem = ""

        async def report(source):
            if self.problem:
                raise SourceError(self.problem)
            end = int(source._handle.now().timestamp())
            busy = "abc"[end // 40 % 3]
            return LoadReport(end, {name: NodeLoad(cpu=30.0 if name == busy else 2.0) for name in "abc"})

        monkeypatch.setattr(LoadSource, "report", report)


async def pods(here, numbers, pause=7.0):
    for number in numbers:
        await here.add(f"p{number}", cpu="10m")
        await asyncio.sleep(pause)


def test_decisions_are_compared_with_the_loads_of_their_time(monkeypatch):
    """The scheduler and the shadow ask at other times: the answer before the last one explains the difference."""
    Watcher(monkeypatch)

    async def story():
        async with shadowed() as (here, follower, found):
            await pods(here, range(40))
            await asyncio.sleep(35)
            follower.finish()
            return follower.shadow.tally, found

    tally, found = in_virtual_time(story())
    assert (tally.total(), tally.unknown, tally.absences) == (40, 0, [])
    assert {each.theirs for each in found} == set("abc")
    assert [line_of(each) for each in found if not each.equal] == []
    assert {each.between for each in found if each.cause is ShadowCause.RACE} == {"LoadReport load-watcher was changed"}
    for each in found:
        (given,) = each.feeds
        assert (given.source, given.problem) == (SOURCE, "")
        assert 0 <= (each.time - given.since).total_seconds() <= 31
        assert {given.theirs["nodes"][0], given.ours["nodes"][0]} <= {2.0, 30.0}
        assert given.ours["nodes"][0] == 30.0 or each.cause is not ShadowCause.NONE


def test_a_source_that_is_away_is_told_and_counted(monkeypatch, tmp_path, caplog):
    watcher = Watcher(monkeypatch)

    async def story():
        async with shadowed() as (here, follower, found):
            await pods(here, range(3))
            watcher.problem = "no answer within 10 s"
            await asyncio.sleep(60)
            await pods(here, range(3, 7))
            await asyncio.sleep(400)
            await pods(here, range(7, 12))
            watcher.problem = ""
            await asyncio.sleep(60)
            await pods(here, range(12, 14))
            await asyncio.sleep(35)
            follower.finish()
            return follower.shadow.tally, found

    with caplog.at_level(logging.WARNING, "bayplan.answers.shadow"):
        tally, found = in_virtual_time(story())
    reason = f"{SOURCE} reports no loads of nodes: no answer within 10 s"
    (absence,) = tally.absences
    assert (absence.source, absence.stale, absence.without, absence.problem) == (SOURCE, 4, 5, reason)
    assert tally.total() == 14
    assert tally.equal() == 14
    told = [record.getMessage() for record in caplog.records if "load-watcher" in record.getMessage()]
    told = [line for line in told if not line.endswith("until they are 300 s old") and "older than" not in line]
    assert told == [
        f"{reason}: decisions are compared with its last answer, as long as that counts",
        f"{SOURCE} answers again",
    ]
    counted = f"4 compared with the last answer of {SOURCE}; 5 compared without {SOURCE}"
    assert summary(tally).endswith(f"; {counted}")
    record = ShadowRecord([NAME], began=found[0].time, until=found[-1].time, tally=tally, differences=found)
    record.save(tmp_path / "state")
    assert ShadowRecord.load(tmp_path / "state") == record
    for ending in ("html", "json", "parquet"):
        write_shadow_report(record, tmp_path / f"report.{ending}")
    assert counted in " ".join((tmp_path / "report.html").read_text().split())  # without the line breaks of a table
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["differences"][0]["feeds"][0]["theirs"].keys() == {"nodes"}
    assert [each["feeds"][0].get("since") is None for each in written["differences"]] == [False] * 7 + [True] * 5 + [
        False
    ] * 2


@pytest.mark.parametrize("away", [False, True])
async def test_a_server_is_asked_over_http(away, monkeypatch):
    """A load-watcher on loopback, in real time. The shadow also compares if it is away."""
    monkeypatch.setattr(feeds, "PAUSE", 0.2)
    monkeypatch.setattr(loads, "INTERVAL", 0.2)
    busy, asked = ["b"], []

    async def answer(request):
        asked.append(request.path)
        if away:
            return web.Response(status=503)
        of = {name: [{"type": "CPU", "operator": "AVG", "value": 30 if name in busy else 2}] for name in "abc"}
        nodes = {name: {"metrics": metrics} for name, metrics in of.items()}
        return web.json_response(watched(nodes, int(time.time())))

    def know(handles, node):
        given = [next(iter(handle.feeds.values())).get("load-watcher") for handle in handles]
        return away or all(each is not None and each["nodes"][node][0] == 30 for each in given)

    async with serving(answer, "/watcher") as address, ApiServer() as server:
        parsed = configuration(address)
        load(server, *NODES)
        access = ClusterAccess(server=server.url)
        build = lambda handle: build_profiles(parsed, handle)  # noqa: E731
        async with (
            running_scheduler(access, build_profiles=build) as scheduler,
            HttpClient(access) as client,
            shadowing(client, parsed) as (follower, found),
        ):
            handles = scheduler._handle, follower.shadow.world.handle
            for number, node in enumerate("bc"):
                busy[:] = node
                await until(lambda node=node: know(handles, node))
                load(server, make_pod(f"p{number}", cpu="10m", spec={"schedulerName": NAME}))
                await until(lambda number=number: len(found) > number)
    assert [each.equal for each in found] == [True, True]
    assert len(asked) >= (2 if away else 4)  # the scheduler and the shadow: once, and for each new load
    if away:
        (absence,) = follower.shadow.tally.absences
        reason = f"load-watcher at {address} reports no loads of nodes: HTTP status 503 Service Unavailable"
        assert (absence.without, absence.problem) == (2, reason)
    else:
        assert [(each.theirs, each.ours) for each in found] == [("b", "b"), ("c", "c")]
        assert follower.shadow.tally.absences == []
