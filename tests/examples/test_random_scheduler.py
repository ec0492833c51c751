from __future__ import annotations

import re

from playground import EXAMPLES, manifest


async def test_pods_of_a_deployment_are_bound_with_an_event_and_a_log_line(playground):
    witness = playground.witness
    await playground.create(*manifest("nginx.yaml", "random-scheduler"))
    async with playground.running(str(EXAMPLES / "random_scheduler.py")) as output:
        await witness.until(lambda: [p["status"]["phase"] for p in witness.pods.values()] == ["Running"] * 3)
        for key in witness.pods:
            expected = f"pod [{key}] is successfully scheduled to node {witness.node_of(key)}"
            events = await witness.until(lambda key=key: witness.events_of(key, "Scheduled"))
            assert [event["note"] for event in events] == [expected]
            await witness.until(lambda text=expected: text in output)
            assert f"found a pod to schedule: {key}" in output
        assert re.search(r"priorities: \{'node-[a-z]+': \d+", str(output))


async def test_pods_of_another_scheduler_are_ignored(playground):
    witness = playground.witness
    other, mine = manifest("nginx.yaml", "another-scheduler")[0], manifest("nginx.yaml", "random-scheduler")[0]
    other["metadata"]["name"] = "other"
    await playground.create(other, mine)
    async with playground.running(str(EXAMPLES / "random_scheduler.py")) as output:
        await witness.until(lambda: sum(map(bool, map(witness.node_of, witness.pods))) == 3)
        assert "default/other" not in output
    assert all(bool(witness.node_of(key)) is key.startswith("default/nginx-") for key in witness.pods)
