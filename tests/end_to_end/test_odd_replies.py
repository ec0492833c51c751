"""Replies to writes that no real API server sends, over a socket: each costs its own write, and nothing else."""

import asyncio
import itertools
import logging

import pytest
from odd_objects import GARBAGE_REPLIES, good_node, good_pod
from odd_server import OddServer
from running import running_scheduler
from tests.support.tables import cases
from tests.support.waiting import until
from workloads import NAME

from bayplan.client import ClusterAccess, HttpClient
from bayplan.core.config import default_profile
from bayplan.running.service.scheduler import Scheduler, SchedulingEndedError
from bayplan.running.service.serving.endpoints import Endpoints
from bayplan.running.service.serving.options import SecureServing, ServingOptions
from bayplan.running.service.serving.server import ReviewClients
from bayplan.running.service.settings import Settings

STATUS = "writing the status of a pod"


@cases("done", {"written": True, "not written": False})
async def test_garbage_as_reply_to_every_status_and_event_is_counted_and_logged_once(caplog, done):
    async with OddServer() as server:
        server.put("nodes", "good-0", good_node(0))
        server.garbage_for = {"status", "events"}
        server.replies.extend(itertools.islice(itertools.cycle([(body, done) for body in GARBAGE_REPLIES]), 500))
        with caplog.at_level(logging.ERROR):
            async with running_scheduler(ClusterAccess(server=server.url)) as scheduler:
                for number in range(1, 40):
                    too_big = good_pod(number)
                    too_big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5000"
                    server.put("pods", f"default/good-{number}", too_big)
                server.put("pods", "default/good-40", good_pod(40))
                await until(lambda: server.objects["pods"]["default/good-40"]["spec"].get("nodeName"))
                await until(
                    lambda: scheduler.metrics.failures.counts["writing the status of a pod", "UndecodableObject"] > 20
                )
    counts = scheduler.metrics.failures.counts
    assert {work for work, _ in counts} <= {STATUS, "writing an event"}
    assert not [record for record in caplog.records if record.exc_info]
    lines = [record.getMessage() for record in caplog.records if "writing the status" in record.getMessage()]
    assert 1 <= len(lines) <= 3 * len(counts)


async def test_garbage_as_reply_to_a_binding_is_looked_up():
    async with OddServer() as server:
        server.put("nodes", "good-0", good_node(0))
        server.garbage_for = {"binding"}
        garbage = [b"<html></html>", b"null", b"{}", b'{"kind":"Pod"}', b'{"kind":"Status","status":"Failure"}', b"[]"]
        server.replies.extend((body, done) for body in garbage for done in (True, False))
        async with running_scheduler(ClusterAccess(server=server.url)) as scheduler:
            for number in range(1, 9):
                server.put("pods", f"default/good-{number}", good_pod(number))
            await until(lambda: all(pod["spec"].get("nodeName") for pod in server.objects["pods"].values()))
            await until(lambda: scheduler.bound == 8 and not scheduler.state.assumed_count)
            assert not server.replies


async def test_pod_whose_name_is_no_part_of_a_path_is_ignored_and_others_are_bound():
    async with OddServer() as server:
        server.put("nodes", "good-0", good_node(0))
        async with running_scheduler(ClusterAccess(server=server.url)) as scheduler:
            for number, name in enumerate(("a/b", "..", "a b", "%2e")):
                strange = good_pod(number)
                strange["metadata"]["name"] = name
                server.put("pods", f"default/{name}", strange)
            server.put("pods", "default/good-9", good_pod(9))
            await until(lambda: server.objects["pods"]["default/good-9"]["spec"].get("nodeName"))
            await until(lambda: not len(scheduler.queue))


async def test_empty_reply_to_a_list_removes_nothing():
    async with OddServer() as server:
        server.put("nodes", "good-0", good_node(0))
        async with running_scheduler(ClusterAccess(server=server.url)) as scheduler:
            server.lists.extend([b"{}", b"null", b'{"items":[]}', b"<html>"])
            server.expire()
            await until(lambda: not server.lists)
            assert scheduler.state.table.live_count == 1
            server.put("pods", "default/good-9", good_pod(9))
            await until(lambda: server.objects["pods"]["default/good-9"]["spec"].get("nodeName"))


async def test_scheduling_loop_that_ends_fails_liveness_and_ends_the_scheduler_with_the_reason(monkeypatch, caplog):
    async with OddServer() as server:
        ended = asyncio.create_task(run_until_the_queue_breaks(server, monkeypatch))
        with pytest.raises(SchedulingEndedError, match="the scheduling loop ended: RuntimeError: the queue is broken"):
            await ended
    assert "the scheduling loop ended" in caplog.text


async def run_until_the_queue_breaks(server, monkeypatch):
    async with HttpClient(server.url) as client:
        scheduler = Scheduler(client, lambda handle: {NAME: default_profile(NAME, handle)}, Settings())

        def broken(*_):
            raise RuntimeError("the queue is broken")

        monkeypatch.setattr(scheduler.queue, "pop", broken)
        try:
            await scheduler.run(asyncio.Event())
        finally:
            endpoints = Endpoints(
                ServingOptions(secure=SecureServing(port=0, bind_address="127.0.0.1")), scheduler, ReviewClients()
            )
            answer = endpoints.health.check("livez", "scheduling-loop", verbose=False, exclude=())
            assert not answer.healthy
            assert "the queue is broken" in answer.text
