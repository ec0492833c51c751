"""DynamicResources: queueing hints, and claims for extended resources."""

import pytest
from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM
from bayplan.core.api.objects import convert
from bayplan.core.devices.classes import ExtendedResources
from bayplan.core.framework.events import Hint
from bayplan.core.plugins.dynamic_resources import events
from bayplan.core.plugins.dynamic_resources.extended_resources import device_requests
from bayplan.testing.builders import make_pod
from bayplan.testing.documents import known
from devices import Devices, allocated, claim, device_class, pod_with, request


def typed(document):
    return convert(ResourceClaim, document) if document else None


FREE, HELD = claim("c", request()), claim("c", request(), status=allocated("a"))
LABELLED = {**FREE, "metadata": {**FREE["metadata"], "labels": {"a": "b"}}}
OTHER_FREE, OTHER_HELD = claim("d", request()), claim("d", request(), status=allocated("a"))


@pytest.mark.feature("DynamicResources: queueing hints")
@pytest.mark.parametrize(
    ("there", "old", "new", "hint"),
    [
        pytest.param(FREE, None, FREE, Hint.QUEUE, id="its claim was added"),
        pytest.param(FREE, None, OTHER_FREE, Hint.SKIP, id="another claim was added"),
        pytest.param(FREE, OTHER_HELD, OTHER_FREE, Hint.QUEUE, id="another claim was deallocated"),
        pytest.param(HELD, FREE, HELD, Hint.QUEUE, id="its claim was allocated"),
        pytest.param(FREE, FREE, LABELLED, Hint.SKIP, id="its claim got a label"),
        pytest.param(None, OTHER_HELD, OTHER_FREE, Hint.SKIP, id="its claim is missing"),
    ],
)  # fmt: skip
def test_hint_after_claim_change(there, old, new, hint):
    claims = {"default/c": typed(there)} if there else {}
    pod = pod_with("c")
    assert events.after_claim_change(claims, pod, typed(old), typed(new)) is hint
    assert asks(RESOURCE_CLAIM.kind, pod, typed(old), typed(new)) or hint is Hint.SKIP


@pytest.mark.feature("DynamicResources: queueing hints")
def test_hint_after_pod_change():
    claims = {"default/c": typed(FREE)}
    pod = pod_with("c")
    assert events.after_pod_change(claims, pod, pod, pod) is Hint.QUEUE
    assert events.after_pod_change({}, pod, pod, pod) is Hint.SKIP
    assert events.after_pod_change(claims, pod, pod, pod_with("c", name="q")) is Hint.SKIP
    assert asks("Pod", pod, pod, pod)


def asks(kind, pod, old, new):
    """Whether the topics of the hint for a kind find the pod after a change."""
    (topics,) = [each.topics for each in events.hints({}, taint_rules=False) if each.event.resource == kind]
    found = topics.of_event(old, new)
    return found is None or bool(set(found) & set(topics.of_pod(pod)))


def test_other_claims_and_pods_ask_no_hints():
    pod = pod_with("c")
    assert not asks(RESOURCE_CLAIM.kind, pod, typed(OTHER_FREE), typed(OTHER_HELD))
    assert not asks("Pod", pod, None, pod_with("c", name="q"))
    of_template = make_pod("p", spec={"resourceClaims": [{"name": "r", "resourceClaimTemplateName": "t"}]})
    assert not asks(RESOURCE_CLAIM.kind, of_template, None, typed(FREE)), "its claim isn't created yet"


def test_events():
    plugin = Devices([]).plugin
    assert [each.event.resource for each in plugin.events()] == [
        "Node",
        "ResourceClaim",
        "Pod",
        "DeviceClass",
        "ResourceSlice",
    ]


def classes(*documents):
    cluster = Devices([])
    store = cluster.state.objects[DEVICE_CLASS]
    for document in documents:
        _, key, each = known(document)
        store.set(key, each)
    return store, store.view(ExtendedResources)


def container(name, amount, **fields):
    requests = {"requests": {"cpu": "1", "example.com/gpu": amount}} if amount else {}
    return {"name": name, "image": "i", "resources": requests, **fields}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.feature("DynamicResources: extended resources")
@pytest.mark.parametrize(
    ("first", "then", "requests", "uses"),
    [
        ([], [("a", "1"), ("b", "2")], ["container-0-request-1=1", "container-1-request-1=2"],
         ["a:container-0-request-1", "b:container-1-request-1"]),
        ([("i", "1")], [("a", "2")], ["container-1-request-1=2"],
         ["a:container-1-request-1", "i:container-1-request-1"]),
        ([("i", "3"), ("j", "4")], [("a", "1")], ["container-1-request-1=3", "container-2-request-1=1"],
         ["a:container-2-request-1", "i:container-2-request-1", "i:container-1-request-1",
          "j:container-2-request-1", "j:container-1-request-1"]),
        ([("s", "1", SIDECAR), ("i", "1")], [("a", "1")], ["container-0-request-1=1", "container-2-request-1=1"],
         ["s:container-0-request-1", "a:container-2-request-1", "i:container-2-request-1"]),
        ([], [("a", None)], [], []),
    ],
    ids=["separate requests", "init container reuses devices", "largest init container", "sidecar", "none"],
)  # fmt: skip
def test_device_requests_of_containers(first, then, requests, uses):
    init = [container(name, amount, **(more[0] if more else {})) for name, amount, *more in first]
    spec = {"initContainers": init, "containers": [container(name, amount) for name, amount in then]}
    _, found = classes(device_class(extendedResourceName="example.com/gpu"))
    made, mappings = device_requests(make_pod("p", spec=spec), ["example.com/gpu"], found)
    assert [f"{each.name}={each.exactly.count}" for each in made] == requests
    assert [f"{each.containerName}:{each.requestName}" for each in mappings] == uses


def test_stale_claim_for_extended_resources_is_deleted():
    pod = make_pod("p", resources={"example.com/gpu": "1"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    stale = claim("p-extended-resources-x", request(), ownerReferences=[owner], annotations=annotations)
    cluster = Devices([device_class(extendedResourceName="example.com/gpu"), stale])
    assert cluster.ask(pod).message == "cannot schedule extended resource claim"
    result = cluster.plugin.post_filter(cluster.cycle, pod, None, None)
    assert result.status.message == "deletion of ResourceClaim completed"
    assert not cluster.state.objects[RESOURCE_CLAIM]
