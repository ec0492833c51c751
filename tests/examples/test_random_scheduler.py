import re

from playground import EXAMPLES, manifest


async def test_pods_of_a_deployment_are_bound_with_an_event_and_a_log_line(playground):
    observer = playground.observer
    await playground.create(*manifest("nginx.yaml", "random-scheduler"))
    async with playground.running(str(EXAMPLES / "random_scheduler.py")) as output:
        await observer.until(lambda: [p["status"]["phase"] for p in observer.pods.values()] == ["Running"] * 3)
        for key in observer.pods:
            expected = f"pod [{key}] is successfully scheduled to node {observer.node_of(key)}"
            events = await observer.until(lambda key=key: observer.events_of(key, "Scheduled"))
            assert [event["note"] for event in events] == [expected]
            await observer.until(lambda text=expected: text in output)
            assert f"found a pod to schedule: {key}" in output
        assert re.search(r"priorities: \{'node-[a-z]+': \d+", str(output))


async def test_pods_of_another_scheduler_are_ignored(playground):
    observer = playground.observer
    other, mine = manifest("nginx.yaml", "another-scheduler")[0], manifest("nginx.yaml", "random-scheduler")[0]
    other["metadata"]["name"] = "other"
    await playground.create(other, mine)
    async with playground.running(str(EXAMPLES / "random_scheduler.py")) as output:
        await observer.until(lambda: sum(map(bool, map(observer.node_of, observer.pods))) == 3)
        assert "default/other" not in output
    assert all(bool(observer.node_of(key)) is key.startswith("default/nginx-") for key in observer.pods)
