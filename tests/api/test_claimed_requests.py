"""Requests of pods that take resources of their nodes through claims, in the form of Kubernetes 1.37.

The cases are those of upstream's TestPodRequestsAndLimitsWithDRA (component-helpers/resource).
"""

import pytest
from lightkube.models.core_v1 import Pod
from tests.support.tables import cases

from bayplan.core.api import requests
from bayplan.core.api.objects import convert

pytestmark = pytest.mark.feature("DynamicResources: resources of nodes")

GI, MI = 2**30, 2**20


def container(name, *, restart=None, **amounts):
    resources = {"requests": amounts} if amounts else {}
    return {"name": name, "resources": resources, **({"restartPolicy": restart} if restart else {})}


def status(name, allocated, actual):
    fixed = {"image": "i", "imageID": "", "ready": True, "restartCount": 0}
    return {
        "name": name,
        "resources": {"requests": {"memory": actual}},
        "allocatedResources": {"memory": allocated},
        **fixed,
    }


def mapping(*containers, **amounts):
    mapped = [{"name": name, "quantity": amount} for name, amount in amounts.items()]
    return {"resourceClaimName": "mapped", "containers": list(containers), "mapping": mapped}


def overhead(*containers, resource="memory", **amounts):
    entry = {"name": resource, **amounts}
    return {"resourceClaimName": "overhead", "containers": list(containers), "overhead": [entry]}


def pod(*claimed, containers=(("c1", "1Gi"),), init=(), level=None, **more):
    spec = {
        "containers": [container(name, memory=amount) if amount else container(name) for name, amount in containers],
        "initContainers": list(init),
        **({"resources": {"requests": level}} if level else {}),
    }
    own = {"nodeAllocatableResourceClaimStatuses": list(claimed), **more}
    return convert(Pod, {"metadata": {"name": "p"}, "spec": spec, "status": own})


TWO = (("c1", "1Gi"), ("c2", "1Gi"))
BOTH = {"perPod": "1Gi", "perContainer": "500Mi"}
SHARED = overhead("c1", "c2", perContainer="1Gi")
RESIZED = {"containerStatuses": [status("c1", "4Gi", "2Gi"), status("c2", "2Gi", "2Gi")]}
OF_POD = {"resources": {"requests": {"memory": "6Gi"}}, "allocatedResources": {"memory": "5Gi"}}
SMALLER = {"containerStatuses": [status("c1", "1Gi", "2Gi"), status("c2", "2Gi", "2Gi")]}
INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@cases(
    "made, memory",
    {
        "a mapping": (pod(mapping("c1", memory="2Gi")), 3 * GI),
        "a mapping that no container uses": (pod(mapping(memory="2Gi")), 3 * GI),
        "several claims": (pod(mapping("c1", memory="2Gi"), mapping("c1", memory="1Gi")), 4 * GI),
        "overhead": (pod(overhead("c1", "c2", **BOTH), containers=TWO), 4072 * MI),
        "overhead for each pod": (pod(overhead("c1", perPod="1Gi")), 2 * GI),
        "overhead for each container": (pod(overhead("c1", perContainer="500Mi")), 1524 * MI),
        "overhead that no container uses": (pod(overhead(**BOTH)), 2 * GI),
        "overhead for containers that no container uses": (pod(overhead(perContainer="500Mi")), GI),
        "an init container counts all the time": (
            pod(overhead("i", perContainer="1Gi"), init=[container("i", memory="1Gi")]),
            2 * GI,
        ),
        "pod level replaces all": (pod(mapping("c1", memory="2Gi"), level={"memory": "8Gi"}), 8 * GI),
        "not resized": (pod(SHARED, containers=(("c1", "4Gi"), ("c2", "2Gi")), **RESIZED), 8 * GI),
        "growing": (pod(SHARED, containers=(("c1", "6Gi"), ("c2", "2Gi")), **RESIZED), 10 * GI),
        "shrinking: the pod's own status": (
            pod(SHARED, containers=(("c1", "1Gi"), ("c2", "2Gi")), **SMALLER, **OF_POD),
            6 * GI,
        ),
        "shrinking: what the kubelet has set includes what is claimed": (
            pod(SHARED, containers=(("c1", "1Gi"), ("c2", "2Gi")), **SMALLER),
            5 * GI,
        ),
        "infeasible: desired doesn't count": (
            pod(SHARED, containers=(("c1", "9Gi"), ("c2", "2Gi")), **RESIZED, **INFEASIBLE),
            8 * GI,
        ),
    },
)
def test_memory_with_claims(made, memory):
    assert requests.counted(requests.pod_requests(made, use_status=True))["memory"] == memory


def test_both_kinds_add_up():
    both = {**mapping("c1", "c2", memory="2Gi"), "overhead": overhead(**BOTH)["overhead"]}
    made = pod(both, containers=TWO)
    assert requests.counted(requests.pod_requests(made, use_status=True)) == {"memory": 6120 * MI}


def test_defaults_are_for_containers_without_requests():
    missing = {"cpu": 10**8}
    amounts = requests.pod_requests(pod(overhead("c1", resource="cpu", perPod="1")), use_status=True, missing=missing)
    assert requests.counted(amounts) == {"cpu": 1100, "memory": GI}
