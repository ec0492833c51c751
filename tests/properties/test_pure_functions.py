"""Declaring function plugins pure changes no decision: streams of pods and changes, decided both ways."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from streams import World, info, stream

from bayplan import filter_plugin, score_plugin


def crowded(pod, node):
    """Allow at most two pods of an application on a node, none of them terminating."""
    same = [other for other in node.pods if other.labels.get("app") == pod.labels.get("app")]
    return "enough pods of the application" if len(same) > 2 or any(each.terminating for each in same) else None


def matching(pod, node):
    """Prefer nodes with the pod's labels, free CPU and the pod's image."""
    images = {name for image in node.status.images or () for name in image.names or ()}
    labels = sum(node.labels.get(key) == value for key, value in pod.labels.items())
    free = max(0, node.allocatable_of("cpu") - node.requested_of("cpu")) // 100
    known = sum(f"{container.image}:latest" in images for container in pod.spec.containers)
    return min(100, 10 * labels + free + 10 * known)


def plugins(*, pure):
    return [filter_plugin(pure=pure)(crowded), score_plugin(weight=3, pure=pure)(matching)]


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.booleans())
def test_decisions_are_the_same_with_and_without_pure(seed, related):
    worlds = [World(reuse=True, plugins=plugins(pure=pure)) for pure in (True, False)]
    for number, step in enumerate(stream(random.Random(seed), length=40, related=related)):
        for world in worlds:
            world.apply(*step)
        assert worlds[0].decisions[-1:] == worlds[1].decisions[-1:], f"after step {number}, {step}"


def test_results_of_pure_functions_are_shared():
    calls = 0

    def counted(pod, node):
        nonlocal calls
        calls += 1

    world = World(reuse=True, plugins=[filter_plugin(pure=True)(counted)])
    nodes, pods = 40, 30
    for number in range(nodes):
        document = {"metadata": {"name": f"n{number}"}, "status": {"allocatable": {"cpu": "9", "pods": "9"}}}
        world.apply("set node", document)
    for number in range(pods):
        shape = {"name": f"p{number}", "namespace": "one", "labels": {}, "spec": {"containers": [{"name": "c"}]}}
        world.apply("pod", shape)
    assert nodes + pods - 2 <= calls <= 2 * nodes + pods  # the first pod, the template, and one node a placement


def test_pods_of_one_template_have_the_same_signature():
    sign = filter_plugin(pure=True)(crowded).sign

    def pod(number, **metadata):
        names = {"name": f"web-{number}", "uid": str(number), "creationTimestamp": f"2026-01-01T00:00:0{number}Z"}
        token = {"name": f"kube-api-access-{number:05}", "projected": {"sources": []}}
        spec = {"containers": [{"name": "c"}], "volumes": [token]}
        return info({"metadata": {"namespace": "one", **names, **metadata}, "spec": spec})

    assert sign(pod(1)) == sign(pod(2))
    for metadata in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"namespace": "other"}):
        assert sign(pod(1)) != sign(pod(2, **metadata))
