"""The lines that `bayplan run` logs at every verbosity."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from bayplan.cli.run_logging import REPORTS, configure_logging
from bayplan.cli.run_reports import RunReports
from bayplan.client.leader_election import LeaderElectionSettings


class Pending(SimpleNamespace):
    active, backoff, unschedulable, gated, in_flight = 1, 2, 3, 4, 5


@pytest.fixture
def scheduler():
    return SimpleNamespace(
        synced=asyncio.Event(),
        stopping=False,
        decisions=10,
        bound=5,
        not_synced_because="",
        queue=SimpleNamespace(pending_pods=Pending),
        state=SimpleNamespace(table=SimpleNamespace(live_count=2), pod_count=7),
    )


async def until(caplog, text):
    async with asyncio.timeout(10):
        while text not in caplog.text:  # noqa: ASYNC110 - the log has no event
            await asyncio.sleep(0.01)


async def test_readiness_and_the_work_of_each_period_are_reported(scheduler, caplog):
    caplog.set_level(logging.INFO, REPORTS)
    async with RunReports(scheduler, silence=0.1, every=0.1).reporting():
        await until(caplog, "not ready yet: still waiting for replies of the API server")
        scheduler.not_synced_because = "cannot list nodes"
        await until(caplog, "not ready yet: cannot list nodes")
        scheduler.synced.set()
        await until(caplog, "ready: 2 nodes, 7 pods on them, 15 pods to schedule")
        scheduler.decisions, scheduler.bound = 14, 8
        await until(caplog, "0.1 s: 4 attempts, 3 pods bound; 8 pods are queued, 3 unschedulable, 4 gated")
        await until(caplog, "0.1 s: 0 attempts, 0 pods bound;")


async def test_standby_reports_the_leader_and_its_changes(scheduler, caplog):
    caplog.set_level(logging.INFO, REPORTS)
    scheduler.synced.set()
    leadership = SimpleNamespace(acquired=asyncio.Event(), leader="one", identity="me")
    election = LeaderElectionSettings(name="x", namespace="y")
    async with RunReports(scheduler, leadership, election).reporting():
        await until(caplog, "standby: one leads; this instance schedules once it holds the lease y/x")
        leadership.leader = "two"
        await until(caplog, "standby: two leads")
        assert "ready:" not in caplog.text
        leadership.acquired.set()
        await until(caplog, "ready: 2 nodes")


def test_reports_are_logged_without_verbosity(monkeypatch):
    monkeypatch.setattr(logging.getLogger("bayplan"), "level", logging.NOTSET)
    configure_logging(0)
    assert logging.getLogger(REPORTS).isEnabledFor(logging.INFO)
    assert not logging.getLogger("bayplan.service.loop").isEnabledFor(logging.INFO)
