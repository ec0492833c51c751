"""Random changes of objects of all kinds that the scheduler watches: none makes a plugin fail."""

import copy
import logging
import random
from typing import Any

import pytest
from odd_kinds import odd_things, odd_users
from odd_objects import mutated, odd_node
from workloads import pod

from bayplan.core.api.kinds import KINDS, NODE, Kind
from bayplan.core.api.objects import UndecodableObject, decode, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import decide
from bayplan.testing.builders import make_cluster

THINGS = odd_things()
VALUES = [
    None, True, False, 0, -1, 2**70, 1.5, "", "a", "1", "-1", "99999999999999999999", "1e30", "10Ei", "x/y", "..",
    "a b", "\x00", "é", [], {}, [None], {"a": None}, ["a"], [{}],
]  # fmt: skip


def changed(rng: random.Random, document: Any) -> Any:
    """A copy with one to three random changes."""
    how = [
        (rng.randrange(10**4), rng.choice(["delete", "replace", "list", "map"]), rng.choice(VALUES))
        for _ in range(rng.randint(1, 3))
    ]
    return mutated(document, how)


def kind_of(plural: str) -> Kind:
    return next(kind for kind in KINDS if kind.plural == plural)


def odd_cluster(rng: random.Random) -> Any:
    """A cluster of two nodes. Some of its objects are changed; those that can't be decoded are left out."""
    cluster = make_cluster()
    for number in range(2):
        cluster.state.set_node(decode(NODE.type, encode(odd_node(number))))
    low = pod("low", "900", priority=0, nodeName="odd-0")
    low["metadata"].update(uid="low", namespace="default", labels={"app": "odd"})
    cluster.state.set_pod(PodInfo.from_raw(encode(low)))
    for (plural, key), document in THINGS.items():
        kind = kind_of(plural)
        thing = changed(rng, document) if rng.random() < 0.3 else copy.deepcopy(document)
        try:
            cluster.state.objects[kind].set(key, decode(kind.type, encode(thing)))
        except UndecodableObject:
            continue
    return cluster


@pytest.mark.parametrize("part", range(4))
def test_no_plugin_raises_for_an_odd_object(part: int, caplog: pytest.LogCaptureFixture) -> None:
    for seed in range(part * 50, part * 50 + 50):
        rng = random.Random(seed)
        cluster = odd_cluster(rng)
        for user in odd_users():
            document = changed(rng, user) if rng.random() < 0.5 else user
            try:
                info = PodInfo.from_raw(encode(document))
            except ValueError:
                continue
            with caplog.at_level(logging.ERROR):
                decide(cluster.profile, cluster.state, info, rng)
    frames = [f"{record.getMessage()}: {record.exc_info[1]!r}" for record in caplog.records if record.exc_info]
    assert not frames
