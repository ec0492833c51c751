"""Objects, watch lines and replies that no real API server sends: the scheduler continues, and good pods are bound."""

from __future__ import annotations

import asyncio
import copy
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from odd_kinds import odd_things, odd_users
from odd_objects import GARBAGE, JSON, changes, good_node, good_pod, mutated, odd_node, odd_pod
from odd_server import OddServer, encode
from tests.support.waiting import PATIENCE, until
from workloads import NAME

from bayplan.client import HttpClient
from bayplan.core.config import default_profile
from bayplan.running.service.debugging.comparison import ObjectDifference, differences, list_all
from bayplan.running.service.informers import LIVE_PODS
from bayplan.running.service.scheduler import Scheduler
from bayplan.testing.running import FAST

THINGS = odd_things()


class Tracebacks(logging.Handler):
    """Collects the log lines with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.lines.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class OddObjects(RuleBasedStateMachine):
    """A scheduler and an OddServer. Updates of odd objects never change the good nodes and pods."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.good = 0
        self.heartbeats = 0
        self.log = Tracebacks()
        logging.getLogger("bayplan").addHandler(self.log)

    @initialize()
    def begin(self) -> None:
        self.runner.run(self._begin())

    async def _begin(self) -> None:
        self.server = await OddServer().__aenter__()
        for number in range(3):
            self.server.put("nodes", f"good-{number}", good_node(number))
        for (plural, key), document in THINGS.items():
            self.server.put(plural, key, copy.deepcopy(document))
        self.client = HttpClient(self.server.url)
        self.scheduler = Scheduler(self.client, lambda handle: {NAME: default_profile(NAME, handle)}, FAST)
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.scheduler.run(self.stop))
        await self.scheduler.synced.wait()

    @rule(count=st.integers(1, 3))
    def good_pods_are_bound(self, count: int) -> None:
        self.runner.run(self._bind_good_pods(count))

    async def _bind_good_pods(self, count: int) -> None:
        keys = []
        for _ in range(count):
            self.good += 1
            pod = good_pod(self.good)
            keys.append(f"default/{pod['metadata']['name']}")
            self.server.put("pods", keys[-1], pod)
        pods = self.server.objects["pods"]
        await until(
            lambda: self.running.done() or all(pods[key]["spec"].get("nodeName") for key in keys),
            step=0.005,
        )
        assert not self.running.done(), "the scheduler has ended"

    @rule(number=st.integers(0, 4), how=changes())
    def an_odd_pod(self, number: int, how: Any) -> None:
        self.runner.run(self._put("pods", f"default/odd-{number}", mutated(odd_pod(number), how)))

    @rule(number=st.integers(0, 2), how=changes())
    def an_odd_node(self, number: int, how: Any) -> None:
        self.runner.run(self._put("nodes", f"odd-{number}", mutated(odd_node(number), how)))

    @rule(things=st.lists(st.tuples(st.sampled_from(sorted(THINGS)), changes()), min_size=1, max_size=6))
    def odd_things_and_their_users(self, things: list[tuple[tuple[str, str], Any]]) -> None:
        self.runner.run(self._put_things(things))

    async def _put_things(self, things: list[tuple[tuple[str, str], Any]]) -> None:
        for (plural, key), how in things:
            self.server.put(plural, key, mutated(THINGS[plural, key], how))
        for user, (_, how) in zip(odd_users(), things, strict=False):
            self.server.put("pods", f"default/{user['metadata']['name']}", mutated(user, how[:1]))
        await self.server.delivered()

    @rule(number=st.integers(0, 4))
    def an_odd_pod_goes(self, number: int) -> None:
        if f"default/odd-{number}" in self.server.objects["pods"]:
            self.runner.run(self._remove("pods", f"default/odd-{number}"))

    @precondition(lambda self: self.good)
    @rule(number=st.integers(0, 4), name=st.booleans(), data=st.data())
    def an_odd_pod_takes_over_a_name_or_a_uid(self, number: int, name: bool, data: st.DataObject) -> None:
        pod, other = odd_pod(number), good_pod(data.draw(st.integers(1, self.good)))
        field = "name" if name else "uid"
        pod["metadata"][field] = other["metadata"][field]
        self.runner.run(self._put("pods", f"default/odd-{number}", pod))

    @rule(plural=st.sampled_from(["pods", "nodes"]), how=changes(), cut=st.integers(0, 10**4), byte=st.integers(0, 255))
    def a_broken_line(self, plural: str, how: Any, cut: int, byte: int) -> None:
        document = odd_pod(9) if plural == "pods" else odd_node(9)
        line = encode(mutated({"type": "ADDED", "object": document}, how))
        at = cut % len(line)
        self.runner.run(self._send(plural, (line[:at] + bytes([byte])).replace(b"\n", b"")))

    @rule(plural=st.sampled_from(["pods", "nodes"]), line=st.one_of(st.binary(max_size=40), JSON.map(encode)))
    def garbage_in_a_watch(self, plural: str, line: bytes) -> None:
        self.runner.run(self._send(plural, line.replace(b"\n", b"")))

    @rule(replies=st.lists(st.tuples(st.one_of(GARBAGE, JSON.map(encode)), st.booleans()), min_size=1, max_size=3))
    def garbage_as_replies(self, replies: list[tuple[bytes, bool]]) -> None:
        self.server.replies.extend(replies)
        self.server.replies = type(self.server.replies)(list(self.server.replies)[-4:])

    async def _put(self, plural: str, key: str, document: Any) -> None:
        self.server.put(plural, key, document)
        await self.server.delivered()

    async def _remove(self, plural: str, key: str) -> None:
        self.server.remove(plural, key)
        await self.server.delivered()

    async def _send(self, plural: str, line: bytes) -> None:
        """Send a line that may break the watch, and wait for the next watch, which reports something."""
        self.server.send(plural, line)
        await self.server.delivered()
        await until(lambda: self.server.watches[plural])
        self.server.bookmark(plural)
        await self.server.delivered()

    def _touch(self) -> None:
        """All good objects get a new version."""
        self.heartbeats += 1
        for plural in ("nodes", "pods"):
            for key, document in list(self.server.objects[plural].items()):
                if "good" in key:
                    document["metadata"].setdefault("annotations", {})["heartbeat"] = str(self.heartbeats)
                    self.server.put(plural, key, document)

    def teardown(self) -> None:
        try:
            if hasattr(self, "server"):
                self.runner.run(self._end())
        finally:
            logging.getLogger("bayplan").removeHandler(self.log)
            self.runner.close()

    async def _end(self) -> None:
        try:
            self.server.replies.clear()
            for plural, objects in list(self.server.objects.items()):
                for key in [key for key in objects if "odd" in key or (plural, key) in THINGS]:
                    self.server.remove(plural, key)
            self._touch()
            self.server.expire()
            await self.server.delivered()
            await self._bind_good_pods(1)
            assert not await self._differences()
            table = self.scheduler.state.table
            assert sum(table.pod_count[table.row_of[f"good-{number}"]] for number in range(3)) == self.good
            assert not self.log.lines, self.log.lines
        finally:
            self.stop.set()
            async with asyncio.timeout(PATIENCE):
                await self.running
            await self.client.close()
            await self.server.__aexit__()

    async def _differences(self) -> set[ObjectDifference]:
        """The differences between the scheduler's state and the server, once the scheduler has received all events."""
        found: set[ObjectDifference] = set()
        for _ in range(10):
            found.clear()
            nodes, pods = await list_all(self.client, LIVE_PODS)
            for _ in differences(nodes, pods, self.scheduler.state, self.scheduler.queue, {NAME}, found):
                pass
            if not found:
                break
            await asyncio.sleep(0.2)
        return found


@pytest.mark.parametrize(
    ("examples", "random"),
    [
        pytest.param(8, False, id="short", marks=pytest.mark.timeout(300)),
        pytest.param(600, True, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_scheduler_survives_whatever_the_api_server_sends(examples: int, random: bool) -> None:
    run_state_machine_as_test(
        OddObjects,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            derandomize=not random,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )
