"""What the comparison of gangs on two control planes counts as chance."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from gangs_beside import Gang, Stream

NODES = {"a0": "a", "a1": "a", "b0": "b", "b1": "b", "c0": "c", "c1": "c", "c2": "c"}
"""Zone a has 14 CPUs, zone b 10, zone c 9."""
OTHERS = {f"other-{number}": node for number, node in enumerate(["a0"] * 4 + ["b0"] * 2 + ["c0"] * 2)}


def on(node, *, pods=2, others=OTHERS):
    return others | {f"gang-{number}": node for number in range(pods)}


@pytest.mark.parametrize(
    ("ours", "chance"),
    [
        (on("c1"), True),  # 6 of 14 CPUs and 4 of 9 are 42% and 44%, and 4% and 2% of the memory: 23 both
        (on("b1"), False),  # 4 of 10 CPUs: 21
        (on("c1", pods=1), False),
        (on("a1", pods=1) | {"gang-9": "c1"}, False),  # two zones
        (on("c1", others=OTHERS | {"other-0": "b0"}), False),
        (OTHERS, False),
    ],
)
def test_another_zone_is_chance_only_if_it_is_utilized_equally(ours, chance):
    stream = Stream([], random.Random(0), zones=dict(NODES))
    assert stream.is_chance(Gang("gang", 2, 2, zone=True), [on("a1"), ours]) is chance
    assert not stream.is_chance(Gang("gang", 2, 2, zone=False), [on("a1"), ours])
