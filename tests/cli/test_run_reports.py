"""The lines that `bayplan run` logs at every verbosity."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from tests.support.waiting import until

from bayplan.faces.cli.run_logging import REPORTS, configure_logging
from bayplan.faces.cli.run_reports import RunReports
from bayplan.running.client.leader_election import LeaderElectionSettings


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


async def test_readiness_and_the_work_of_each_period_are_reported(scheduler, caplog):
    caplog.set_level(logging.INFO, REPORTS)
    async with RunReports(scheduler, silence=0.1, every=0.1).reporting():
        await until(lambda: "not ready yet: still waiting for replies of the API server" in caplog.text)
        scheduler.not_synced_because = "cannot list nodes"
        await until(lambda: "not ready yet: cannot list nodes" in caplog.text)
        scheduler.synced.set()
        await until(lambda: "ready: 2 nodes, 7 pods on them, 15 pods to schedule" in caplog.text)
        scheduler.decisions, scheduler.bound = 14, 8
        await until(
            lambda: "0.1 s: 4 attempts, 3 pods bound; 8 pods are queued, 3 unschedulable, 4 gated" in caplog.text
        )
        await until(lambda: "0.1 s: 0 attempts, 0 pods bound;" in caplog.text)


async def test_standby_reports_the_leader_and_its_changes(scheduler, caplog):
    caplog.set_level(logging.INFO, REPORTS)
    scheduler.synced.set()
    leadership = SimpleNamespace(acquired=asyncio.Event(), leader="one", identity="me")
    election = LeaderElectionSettings(name="x", namespace="y")
    async with RunReports(scheduler, leadership, election).reporting():
        await until(lambda: "standby: one leads; this instance schedules once it holds the lease y/x" in caplog.text)
        leadership.leader = "two"
        await until(lambda: "standby: two leads" in caplog.text)
        assert "ready:" not in caplog.text
        leadership.acquired.set()
        await until(lambda: "ready: 2 nodes" in caplog.text)


def test_reports_are_logged_without_verbosity(monkeypatch):
    monkeypatch.setattr(logging.getLogger("bayplan"), "level", logging.NOTSET)
    configure_logging(0)
    assert logging.getLogger(REPORTS).isEnabledFor(logging.INFO)
    assert not logging.getLogger("bayplan.running.service.loop").isEnabledFor(logging.INFO)
