"""Two instances with leader election: leaders are killed and stopped, and every pod is bound exactly once."""

import signal
from contextlib import AsyncExitStack

import pytest
from clusters import ABRUPT
from running import bayplan_run
from tests.support.invariants import check_invariants, waiting_or_bound
from tests.support.waiting import until
from workloads import NAME, pods

from bayplan.core.api.kinds import LEASE

pytestmark = [*ABRUPT, pytest.mark.usefixtures("invariants")]
LEADS = "became leader"


def instance(cluster):
    return bayplan_run(
        "--kubeconfig",
        cluster.scheduler_kubeconfig,
        "--leader-elect",
        f"--leader-elect-resource-name={NAME}",
        "--leader-elect-lease-duration=2s",
        "--leader-elect-renew-deadline=1s",
        "--leader-elect-retry-period=200ms",
        "-v",
    )


async def leader(instances):
    """Waits for an instance that leads, and returns it."""
    return await until(lambda: next((each for each in instances if each.logged(LEADS)), None))


@pytest.mark.timeout(200)
async def test_pods_are_bound_once_while_leaders_are_killed(cluster):
    for number in range(12):
        await cluster.add_node(f"n{number}", cpu="16")
    observer = cluster.observer
    async with AsyncExitStack() as running:
        instances = [await running.enter_async_context(instance(cluster)) for _ in range(2)]
        for burst in range(5):
            await cluster.create_fast(pods(f"burst{burst}", 200, "100m"))
            first = await leader(instances)
            await observer.until(lambda burst=burst: sum(map(bool, map(observer.node_of, observer.pods))) > burst * 200)
            await first.kill()
            instances.remove(first)
            instances.append(await running.enter_async_context(instance(cluster)))
        await leader(instances)
        await observer.until(lambda: all(map(observer.node_of, observer.pods)))
    assert len(observer.pods) == 1000
    waiting_or_bound(observer, NAME)
    check_invariants(observer, NAME)


async def test_stopped_leader_releases_the_lease(cluster):
    await cluster.add_node("a", cpu="16")
    async with instance(cluster) as first:
        await leader([first])
        async with instance(cluster) as second:
            await cluster.observer.until(lambda: second.logged(" I standby: "))
            assert second.logged(f" leads; this instance schedules once it holds the lease kube-system/{NAME}")
            await cluster.create(*pods("before", 3))
            await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))
            first.signal(signal.SIGTERM)
            assert await first.ended() == 0
            await leader([second])
            await cluster.create(*pods("after", 3))
            await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))


async def test_frozen_leader_exits_without_writing(cluster):
    await cluster.add_node("a", cpu="16")
    async with instance(cluster) as frozen:
        await leader([frozen])
        frozen.signal(signal.SIGSTOP)
        async with instance(cluster) as second:
            await leader([second])
            await cluster.create(*pods("p", 20))
            frozen.signal(signal.SIGCONT)
            assert await frozen.ended() == 1
            assert frozen.problems[-1].startswith("bayplan run: the lease was lost: another instance may lead now")
            assert not frozen.logged("Traceback")
            await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))
            lease = await cluster.client.get(LEASE, NAME, "kube-system")
            assert lease.spec.leaseTransitions == 1
