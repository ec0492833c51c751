"""What is kept of a place that a pending pod has: host ports, resources and devices, until it is bound or gone."""

import pytest
from test_claims import CLAIM, CLAIMS, add_class, add_devices

from bayplan.core.api.kinds import POD, RESOURCE_CLAIM
from bayplan_devcluster.apiserver.faults import Fault

ELSEWHERE = {"nodeSelector": {"zone": "elsewhere"}}


def _with_port(port, cpu="1"):
    ports = [{"containerPort": port, "hostPort": port}]
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, "ports": ports}]


async def test_a_lent_place_keeps_its_host_ports(here):
    await here.story.add_node("a", cpu="8")
    await here.ask("train", containers=_with_port(80))
    await here.take("train", "one", **ELSEWHERE)
    await here.story.attempt("other", containers=_with_port(80))
    assert here.story.nodes() == {}
    assert here.held() == {}
    await here.story.delete("one")
    await here.settle()
    assert here.held() == {"a": 1}
    assert here.story.nodes() == {}
    await here.delete("train")
    await here.settle()
    assert here.story.nodes() == {"other": "a"}


async def test_a_lent_place_keeps_all_that_it_asks_for(here):
    await here.story.add_node("a", cpu="4")
    await here.ask("train", cpu="4")
    await here.take("train", "small", cpu="1", **ELSEWHERE)
    await here.story.attempt("other", cpu="2")
    assert here.story.nodes() == {}
    await here.story.delete("small")
    await here.settle()
    assert here.held() == {"a": 1}


async def _add_pod_with_claim(here, name, annotations=(), **spec):
    """A pod and its claim, as the controller of claims makes it."""
    metadata = {"name": f"{name}-gpu", "namespace": "default"}
    await here.story.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": CLAIM})
    claims = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    await here.add_pod(name, annotations=annotations, resourceClaims=claims, **spec)
    await here.settle()


@pytest.fixture
async def with_devices(here):
    await add_class(here)
    await here.story.add_node("a", cpu="8")
    await add_devices(here, "a", "gpu-0", "gpu-1")
    await here.ask("train", count=2, **CLAIMS)
    assert (await here.answer("train"))[1] == "True"
    return here


TAKES = {"annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "train"}}


async def test_the_devices_of_a_lent_place_are_kept_until_it_is_given_back(with_devices):
    here = with_devices
    await _add_pod_with_claim(here, "one", **TAKES, **ELSEWHERE)
    await _add_pod_with_claim(here, "other")
    assert here.story.nodes() == {}
    assert here.held() == {"a": 1}
    await here.story.delete("one")
    await here.settle()
    assert here.story.nodes() == {}
    assert here.held() == {"a": 2}
    await here.ask("more", **CLAIMS)
    assert (await here.answer("more"))[1] == "False"


async def test_the_devices_of_a_lent_place_are_for_the_pod_that_has_it(with_devices):
    here = with_devices
    await _add_pod_with_claim(here, "other")
    await _add_pod_with_claim(here, "one", **TAKES)
    assert here.story.nodes() == {"one": "a"}
    await _add_pod_with_claim(here, "two", **TAKES, schedulingGates=[{"name": "wait"}])
    await here.client.patch(POD, "two", {"spec": {"schedulingGates": None}}, "default")
    await here.settle()
    assert here.story.nodes() == {"one": "a", "two": "a"}
    assert here.held() == {}


async def test_devices_that_a_pod_could_not_be_bound_with_are_kept_again(with_devices):
    here = with_devices
    fault = here.client.transport.faults.add(Fault(verb="create", resource="pods", subresource="binding", answer=400))
    await _add_pod_with_claim(here, "one", **TAKES)
    assert fault.hits
    await _add_pod_with_claim(here, "other")
    here.client.transport.faults.clear()
    await here.settle()
    assert here.story.nodes() == {"one": "a"}


async def test_devices_of_lent_places_are_free_once_the_request_ends(with_devices):
    here = with_devices
    await _add_pod_with_claim(here, "one", **TAKES, **ELSEWHERE)
    await _add_pod_with_claim(here, "other")
    await here.delete("train")
    await here.settle()
    assert here.story.nodes() == {"other": "a"}
