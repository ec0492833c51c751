from playground import EXAMPLES, manifest
from tests.support.tables import cases

POLICY = str(EXAMPLES / "tier_policy.py")
WAYS = {"as a plugin": ["-m", "bayplan", "run", "--secure-port=0", "--plugin", POLICY], "alone": [POLICY]}


def pod(name, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "bayplan-scheduler", "containers": [{"name": "main", "image": "pause"}], **spec},
    }


@cases("command", WAYS)
async def test_pods_stay_on_their_tier(playground, command):
    observer = playground.observer
    async with playground.running(*command):
        await playground.create(
            *manifest("nginx.yaml", "bayplan-scheduler"), *manifest("cronjobs.yaml", "bayplan-scheduler")
        )

        def placed(prefix):
            return {observer.node_of(key) for key in observer.pods if key.startswith(f"default/{prefix}-")} - {""}

        for prefix in ("report", "cleanup", "backup"):
            await observer.until(lambda prefix=prefix: placed(prefix))
            assert placed(prefix) == {"node-cronjob"}
        await observer.until(lambda: sum(bool(observer.node_of(key)) for key in observer.pods if "nginx" in key) == 3)
        assert placed("nginx") <= {"node-a", "node-b"}


async def test_unschedulable_pod_stays_pending_with_the_reasons(playground):
    observer = playground.observer
    async with playground.running("-m", "bayplan", "run", "--secure-port=0", "--plugin", POLICY):
        await playground.create(pod("leader", nodeSelector={"tier": "control"}))
        event = (await observer.until(lambda: observer.events_of("default/leader", "FailedScheduling")))[0]
    assert observer.node_of("default/leader") == ""
    reasons = "1 node is reserved for the control plane, 3 node(s) didn't match Pod's node affinity/selector."
    assert event["note"].startswith(f"0/4 nodes are available: {reasons}")


async def test_other_pods_are_spread_randomly(playground):
    observer = playground.observer
    async with playground.running("-m", "bayplan", "run", "--secure-port=0", "--plugin", POLICY):
        await playground.create(*(pod(f"pod-{number}") for number in range(20)))
        await observer.until(lambda: len(observer.pods) == 20 and all(map(observer.node_of, observer.pods)))
    counts = [sum(observer.node_of(key) == node for key in observer.pods) for node in ("node-a", "node-b")]
    assert sum(counts) == 20
    assert min(counts) > 0
