"""Random gangs, node failures and deletions: no gang is bound in part or holds resources while it is pending."""

import asyncio

import pytest
from gang_world import PLUGINS, gang_world
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stories import in_virtual_time

NODES = ("a", "b", "c", "d")

actions = st.one_of(
    st.tuples(st.just("member"), st.integers(0, 3)),
    st.tuples(st.just("member"), st.integers(0, 3)),
    st.tuples(st.just("member"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.integers(0, 3), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.integers(1, 6)),
    st.tuples(st.just("fail"), st.sampled_from(NODES)),
    st.tuples(st.just("alone"), st.integers(1, 3), st.sampled_from([0, -5])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.5, 3.0])),
    st.tuples(st.just("settle")),
)
sizes = st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(1, 3)).map(
    lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
)


async def story(gangs, steps, plugins, version):
    sized = {f"gang-{number}": sized for number, sized in enumerate(gangs)}
    async with gang_world(sized, plugins, version) as world:
        names, alone = list(world.gangs), 0
        for name in NODES[:2]:
            await world.add_node(name, 4)
        for what, *how in steps:
            if what == "member":
                await world.add_member(names[how[0] % len(names)])
            elif what == "delete":
                await world.delete_member(names[how[0] % len(names)], how[1], when_idle=how[2])
            elif what == "node":
                await world.add_node(*how)
            elif what == "fail":
                await world.fail_node(*how)
            elif what == "alone":
                alone += 1
                await world.add_pod(f"alone-{alone}", how[0], priority=how[1])
            elif what == "wait":
                await asyncio.sleep(*how)
            else:
                await world.settle()
        await world.settle()
        for gang, (_, size, _) in world.gangs.items():
            for _ in range(size):
                await world.add_member(gang)
        await world.settle()


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@settings(max_examples=60)
@given(gangs=st.lists(sizes, min_size=1, max_size=4), steps=st.lists(actions, min_size=5, max_size=60))
def test_gangs_are_bound_whole_or_wait_whole(gangs, steps, version):
    in_virtual_time(story(gangs, steps, PLUGINS, version))


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@settings(max_examples=40)
@given(gangs=st.lists(sizes, min_size=3, max_size=4), steps=st.lists(actions, min_size=5, max_size=60))
def test_preempting_gangs_are_bound_whole_or_wait_whole(gangs, steps, version):
    in_virtual_time(story(gangs, steps, (*PLUGINS, "WorkloadAwarePreemption"), version))
