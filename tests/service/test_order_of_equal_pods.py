"""Equal pods that have failed equally often start in the order in which they came, as with kube-scheduler."""

import random

import pytest

pytestmark = pytest.mark.feature("Requeueing: pods that are rejected for the same reasons")


def _bound(here):
    """The pods that wait first, in the order of their bindings."""
    sent = here.client.transport.sent("create")
    names = [each.info.name for each in sent if each.info.subresource == "binding"]
    return [name for name in names if name.startswith("waits")]


@pytest.mark.parametrize("seconds", [0.05, 1.5, 30.0, 400.0])
async def test_equal_pods_start_in_the_order_in_which_they_came(here, seconds):
    """Each node has two pods, and room for a pod that waits once both have ended: every other end helps no one."""
    for node in range(5):
        await here.add_node(f"n{node}")
    for node in range(5):
        await here.attempt(f"a{node}", f"b{node}")
    waiting = [f"waits-{number}" for number in range(5)]
    for name in waiting:
        await here.add(name, cpu="2")
        await here.settle(0.1)
    where = here.nodes()
    for node in sorted(set(where.values())):
        for pod in sorted(pod for pod, name in where.items() if name == node):
            await here.delete(pod)
            await here.settle(seconds)
    await here.settle()
    assert _bound(here) == waiting


@pytest.mark.parametrize("seed", range(4))
async def test_the_order_holds_while_pods_come_and_go(here, seed):
    """Pods of two kinds wait; others end at random times, in random order."""
    rng = random.Random(seed)
    for node in range(4):
        await here.add_node(f"n{node}", cpu="4")
    await here.attempt(*(f"runs-{number}" for number in range(16)))
    kinds = {"1": [], "2": []}
    for number in range(8):
        cpu = rng.choice(["1", "2"])
        name = f"waits-{number}"
        kinds[cpu].append(name)
        await here.add(name, cpu=cpu)
        await here.settle(rng.choice([0.0, 0.2, 5.0]))
    running = [f"runs-{number}" for number in range(16)]
    rng.shuffle(running)
    for name in running:
        await here.delete(name)
        await here.settle(rng.choice([0.0, 0.1, 3.0, 40.0]))
    await here.settle()
    bound = _bound(here)
    assert {cpu: [name for name in bound if name in names] for cpu, names in kinds.items()} == kinds
