"""Which changes of the cluster let open requests be asked again."""

import random

import pytest

from bayplan.core.api.kinds import NODE


async def _ask_without_room(here, nodes=4, count=4, **options):
    """Nodes that are full with two pods each, and a request for `count` nodes."""
    for number in range(nodes):
        await here.story.add_node(f"n{number}")
        await here.story.attempt(f"a{number}", f"b{number}")
    await here.ask("train", cpu="2", count=count, **options)
    assert (await here.answer("train"))[1] == "False"


async def _asked_by(here, change):
    before = here.story.scheduler.decisions
    await change
    await here.settle()
    return here.story.scheduler.decisions - before


async def test_pods_that_end_ask_only_once_there_is_room_for_all_places(here):
    await _ask_without_room(here)
    where = here.story.nodes()
    for pod in sorted(where)[:-1]:
        assert await _asked_by(here, here.story.delete(pod)) == 0, pod
    await here.story.delete(max(where))
    await here.settle()
    assert (await here.answer("train"))[1] == "True"
    assert sum(here.held().values()) == 4


@pytest.mark.parametrize(
    ("cpu", "labels", "asks"),
    [pytest.param("1", {}, False, id="too small"), pytest.param("8", {}, True, id="large enough")],
)
async def test_a_new_node_asks_if_it_has_room(here, cpu, labels, asks):
    await _ask_without_room(here, nodes=1, count=3)
    assert bool(await _asked_by(here, here.story.add_node("new", cpu=cpu, **labels))) == asks
    assert (await here.answer("train"))[1] == str(asks)


async def test_a_node_that_loses_a_taint_asks(here):
    taint = {"key": "a", "effect": "NoSchedule"}
    await here.story.add_node("n")
    await here.client.patch(NODE, "n", {"spec": {"taints": [taint]}})
    await here.ask("train")
    assert (await here.answer("train"))[1] == "False"
    await here.client.patch(NODE, "n", {"spec": {"taints": []}})
    await here.settle()
    assert (await here.answer("train"))[1] == "True"


async def test_a_request_that_may_evict_is_asked_after_each_pod(here):
    await _ask_without_room(here, preemption="true")
    assert await _asked_by(here, here.story.delete("a0")) > 0


@pytest.mark.parametrize("seed", range(4))
async def test_what_a_fresh_request_gets_an_open_one_has_got(here, seed):
    rng = random.Random(seed)
    for number in range(5):
        await here.story.add_node(f"n{number}", cpu=str(rng.randint(2, 4)))
    pods = [f"p{number}" for number in range(rng.randint(8, 16))]
    await here.story.attempt(*pods)
    await here.add_template("small", "1")
    await here.add_template("large", "2")
    sets = [pair for pair in (("small", rng.randint(0, 3)), ("large", rng.randint(1, 3))) if pair[1]]
    await here.add("open", *sets)
    await here.settle()
    rng.shuffle(pods)
    for step in pods:
        if (await here.answer("open"))[1] == "True":
            break
        if rng.random() < 0.2:
            await here.story.add_node(f"new-{step}", cpu=str(rng.randint(1, 3)))
        else:
            await here.story.delete(step)
        await here.settle()
        if (await here.answer("open"))[1] == "False":
            await here.add(f"fresh-{step}", *sets)
            await here.settle()
            assert (await here.answer(f"fresh-{step}"))[1] == "False"
            await here.delete(f"fresh-{step}")
            await here.settle()
