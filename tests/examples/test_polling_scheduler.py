import runpy

from playground import EXAMPLES, manifest

from bayplan.core.api.kinds import NODE
from bayplan_devcluster.apiserver import Fault

EXAMPLE = EXAMPLES / "polling_scheduler.py"


async def test_pods_go_to_available_nodes(playground):
    observer = playground.observer
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    await playground.cluster.client.patch(NODE, "node-a", {"spec": {"unschedulable": True}})
    await playground.cluster.client.patch(NODE, "node-control", {"spec": {"taints": [taint]}})
    async with playground.running(str(EXAMPLE), "--interval", "0.1"):
        await playground.create(*manifest("nginx.yaml", "polling-scheduler"))
        await observer.until(lambda: [p["status"]["phase"] for p in observer.pods.values()] == ["Running"] * 3)
    assert {observer.node_of(key) for key in observer.pods} <= {"node-b", "node-cronjob"}


async def test_server_errors_are_logged_and_the_loop_continues(playground):
    observer = playground.observer
    playground.cluster.server.faults.add(Fault(verb="create", subresource="binding", answer=500, times=2))
    playground.cluster.server.faults.add(Fault(verb="list", resource="nodes", answer=403, times=1, message="not today"))
    await playground.create(*manifest("nginx.yaml", "polling-scheduler"))
    async with playground.running(str(EXAMPLE), "--interval", "0.1") as output:
        await observer.until(lambda: len(observer.pods) == 3 and all(map(observer.node_of, observer.pods)))
        assert "round failed: 403: not today" in output
        assert "500" in output


async def test_both_choice_functions_can_be_replaced(playground):
    observer = playground.observer
    scheduler = runpy.run_path(str(EXAMPLE))["PollingScheduler"](
        playground.cluster.client,
        choose_available=lambda _pod, nodes: [node for node in nodes if node.metadata.name != "node-a"],
        choose_node=lambda _pod, available: min(available, key=lambda node: node.metadata.name),
    )
    await playground.create(*manifest("nginx.yaml", "polling-scheduler"))
    await observer.until(lambda: len(observer.pods) == 3)
    await scheduler.round()
    await observer.until(lambda: [observer.node_of(key) for key in observer.pods] == ["node-b"] * 3)


async def test_pod_stays_pending_when_no_node_is_chosen(playground):
    observer = playground.observer
    scheduler = runpy.run_path(str(EXAMPLE))["PollingScheduler"](
        playground.cluster.client, choose_node=lambda _pod, _available: None
    )
    await playground.create(*manifest("nginx.yaml", "polling-scheduler"))
    await observer.until(lambda: len(observer.pods) == 3)
    await scheduler.round()
    assert [pod["spec"].get("nodeName") for pod in observer.pods.values()] == [None] * 3
