"""Preemptors that wait for their victims have their turn when these are gone, whatever happens meanwhile."""

import pytest

from bayplan.core.api.kinds import POD
from bayplan_devcluster.apiserver.faults import Fault
from bayplan_devcluster.in_memory import InMemoryClient

pytestmark = pytest.mark.feature("DefaultPreemption: gated preemptors")

HOSTNAME = "kubernetes.io/hostname"


def on(node):
    return {"nodeSelector": {HOSTNAME: node}}


@pytest.fixture
async def user(here):
    """A client whose requests are not delayed."""
    async with InMemoryClient(here.client.server) as client:
        yield client


def delay_deletes(here, seconds):
    here.client.transport.faults.add(Fault(verb="delete", resource="pods", delay=seconds))


async def gone(user, *names):
    for name in names:
        await user.delete(POD, name, "default", grace_period_seconds=0)


@pytest.mark.parametrize("ended_by", ["deletion", "lost nomination"])
async def test_end_of_another_nomination_does_not_make_a_preemptor_forgotten(here, user, ended_by):
    """The event is about pods of the other pod's priority, but everything asked about it sees it."""
    for name in ("node-0", "node-1"):
        await here.add_node(name, "4", **{HOSTNAME: name})
    grace = {"terminationGracePeriodSeconds": 60}
    await here.attempt("low-0", cpu="4", **on("node-0"), **grace)
    await here.attempt("low-1", cpu="3", **on("node-1"), **grace)
    await here.attempt("other", cpu="500m", **on("node-1"))
    await here.add("mid", cpu="4", priority=500, **on("node-0"))
    await here.settle(3)
    delay_deletes(here, 2.0)
    await here.add("urgent", cpu="3500m", priority=1000, **on("node-1"))
    await here.settle(0.5)
    await gone(user, "other")
    await here.settle(3)
    assert here.scheduler.queue.get(_uid(here, "urgent")).gated, "an event came while the victim was being evicted"
    if ended_by == "deletion":
        await gone(user, "mid")
    else:
        await user.patch(POD, "mid", {"status": {"nominatedNodeName": None}}, "default", subresource="status")
    await here.settle(1)
    await gone(user, "low-1")
    await here.settle(0.1)
    assert here.nodes()["urgent"] == "node-1"
    await gone(user, "low-0")
    await here.settle()


async def test_preemptor_is_retried_when_the_deletion_that_helps_it_came_too_early(here, user):
    """NodePorts rejected it, and waits for the port: the victim that has it is gone before the other one."""
    await here.add_node("node-0", "4", **{HOSTNAME: "node-0"})
    port = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
    with_port = {"containers": [{**port, "resources": {"requests": {"cpu": "1"}}}]}
    await here.attempt("has-the-port", terminationGracePeriodSeconds=0, **with_port)
    await here.attempt("big", cpu="3", terminationGracePeriodSeconds=60)
    delay_deletes(here, 2.0)
    both = {"containers": [{**port, "resources": {"requests": {"cpu": "4"}}}]}
    await here.add("urgent", priority=1000, **both)
    await here.settle(1)
    await gone(user, "has-the-port")
    await here.settle(20)
    await gone(user, "big")
    await here.settle()
    assert here.nodes() == {"urgent": "node-0"}


def _uid(here, name):
    return next(queued.uid for queued in here.scheduler.queue if queued.pod.name == name)
