from __future__ import annotations

from playground import EXAMPLES, manifest

from bayplan.devcluster.apiserver import Fault

EXAMPLE = str(EXAMPLES / "reconcile_loop.py")


async def test_pods_with_the_scheduler_name_are_bound(playground):
    witness = playground.witness
    async with playground.running(EXAMPLE, "--scheduler-name", "mine"):
        await playground.create(*manifest("nginx.yaml", "mine"))
        await witness.until(lambda: [p["status"]["phase"] for p in witness.pods.values()] == ["Running"] * 3)


async def test_failed_binding_is_retried(playground):
    witness = playground.witness
    fault = playground.cluster.server.faults.add(
        Fault(verb="create", subresource="binding", answer=409, reason="Conflict", times=4)
    )
    await playground.create(*manifest("nginx.yaml", "reconcile-scheduler"))
    async with playground.running(EXAMPLE) as output:
        await witness.until(lambda: len(witness.pods) == 3 and all(map(witness.node_of, witness.pods)))
        assert "409 Conflict: injected fault; retrying" in output
    assert fault.hits == 4
