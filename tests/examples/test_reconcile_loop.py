from playground import EXAMPLES, manifest

from bayplan_devcluster.apiserver import Fault

EXAMPLE = str(EXAMPLES / "reconcile_loop.py")


async def test_pods_with_the_scheduler_name_are_bound(playground):
    observer = playground.observer
    async with playground.running(EXAMPLE, "--scheduler-name", "mine"):
        await playground.create(*manifest("nginx.yaml", "mine"))
        await observer.until(lambda: [p["status"]["phase"] for p in observer.pods.values()] == ["Running"] * 3)


async def test_failed_binding_is_retried(playground):
    observer = playground.observer
    fault = playground.cluster.server.faults.add(
        Fault(verb="create", subresource="binding", answer=409, reason="Conflict", times=4)
    )
    await playground.create(*manifest("nginx.yaml", "reconcile-scheduler"))
    async with playground.running(EXAMPLE) as output:
        await observer.until(lambda: len(observer.pods) == 3 and all(map(observer.node_of, observer.pods)))
        assert "409 Conflict: injected fault; retrying" in output
    assert fault.hits == 4
