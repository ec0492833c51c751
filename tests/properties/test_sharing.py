"""Sharing changes no decision: streams of pods and changes, decided with and without it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_clusters import Maker
from streams import PLAIN, World, first_by_name, info, stream

from bayplan.core.scheduling import decide
from bayplan.core.versions import DEFAULT_GATES, NEWEST, gates_of

GATES = [DEFAULT_GATES, gates_of(NEWEST).but("TaintTolerationComparisonOperators")]

pytestmark = pytest.mark.feature("Sharing: decisions with and without it")


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(GATES))
def test_decisions_are_the_same_with_and_without_sharing(seed, related, gates):
    rng = random.Random(seed)
    with_reuse, without = World(reuse=True, gates=gates), World(gates=gates)
    for number, step in enumerate(stream(rng, length=40, related=related)):
        for world in (with_reuse, without):
            world.apply(*step)
        assert with_reuse.decisions[-1:] == without.decisions[-1:], f"after step {number}, {step}"


@pytest.mark.parametrize("related", [False, True])
def test_most_decisions_of_a_stream_share_results(related):
    world = World(reuse=True)
    for step in stream(random.Random(1), length=400, related=related):
        world.apply(*step)
    assert world.sharing.used > len(world.decisions) / 2


def test_pods_that_differ_only_in_labels_share_results():
    world = World(reuse=True)
    world.apply("set node", {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "64"}}})
    for number in range(20):
        labels, namespace = {"app": f"app-{number}"}, f"namespace-{number}"
        world.apply("pod", {"name": f"pod-{number}", "namespace": namespace, "labels": labels, "spec": PLAIN})
    assert world.sharing.used == 19  # all but the first


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_pods_with_equal_keys_are_rejected_in_the_same_way(seed):
    rng = random.Random(seed)
    world, make = World(reuse=True), Maker(rng)
    for step in stream(rng, length=25, related=True):
        world.apply(*step)
    rejections = {}
    for number in range(12):
        document = make.pod("pod")
        for index, other in enumerate((document, document, *varied(document, make.pod("other")))):
            decision = second_decision(world, other, f"{number}-{index}")
            if decision.alike is not None:
                result = decision.outcome, decision.message, decision.diagnosis.unschedulable_plugins
                assert rejections.setdefault(decision.alike, result) == result


def test_rejected_pods_with_terms_and_constraints_have_a_key():
    rng = random.Random(1)
    world, make = World(reuse=True), Maker(rng)
    for step in stream(rng, length=100, related=True):
        world.apply(*step)
    too_large = [{"name": "c", "resources": {"requests": {"cpu": "1000"}}}]
    documents = [{**pod, "spec": {**pod["spec"], "containers": too_large}} for pod in map(make.pod, "pqrstuvwxy")]
    assert all(second_decision(world, pod, pod["metadata"]["name"]).alike for pod in documents)


def second_decision(world, document, name):
    """Decide two equal pods, and return the second decision: the first one of a signature shares nothing."""
    for number in range(2):
        pod = info({**document, "metadata": {**document["metadata"], "name": name, "uid": f"{name}-{number}"}})
        decision = decide(world.profile, world.state, pod, first_by_name(world.state), start=world.start)
    return decision


def varied(pod, other):
    """Yield the pod with one field of another."""
    for field in ("labels", "namespace"):
        yield {**pod, "metadata": {**pod["metadata"], field: other["metadata"][field]}}
    for field in ("affinity", "topologySpreadConstraints", "tolerations", "nodeSelector"):
        if field in other["spec"]:
            yield {**pod, "spec": {**pod["spec"], field: other["spec"][field]}}
