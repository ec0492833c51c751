from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.cluster.slots import Slots


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["claim", "release", "trim"]), st.integers(0, 9)), max_size=80))
def test_lowest_free_number_is_claimed(steps):
    slots, used = Slots(), set()
    for step, which in steps:
        if step == "claim":
            number = slots.claim()
            assert number == min(set(range(len(used) + 1)) - used)
            used.add(number)
        elif step == "release" and used:
            number = sorted(used)[which % len(used)]
            used.remove(number)
            slots.release(number)
        elif step == "trim":
            assert slots.trim() == max(used, default=-1) + 1
        assert slots.size > max(used, default=-1)
    for number in used:
        slots.release(number)
    assert slots.trim() == 0
    assert not slots._heap
