"""Pods with claims for devices that provide resources of their node, and a cluster that places them."""

from __future__ import annotations

from lightkube.models.resource_v1 import ResourceClaimStatus

from bayplan.api.kinds import POD, RESOURCE_CLAIM
from bayplan.api.objects import convert
from bayplan.cluster.pod_info import PodInfo
from bayplan.devices.claims import reservations
from bayplan.framework.assuming import assumed_as
from bayplan.framework.binding_runner import run_reserve
from bayplan.testing import make_cluster, make_node
from devices import device_class, resource_slice


def container(name="main", claims=(), requested=None, limits=None):
    resources = {"requests": requested or {}, "limits": limits or {}, "claims": [{"name": each} for each in claims]}
    return {"name": name, "image": "i", "resources": resources}


def pod(name, *claims, refers=True, level=None, limits=None, containers=(), init=(), **requested):
    """A pod with claims. Without `containers`, it has one, which uses all of them. `level` and `limits` are its own."""
    own = {"requests": level or {}, "limits": limits or {}}
    spec = {
        "containers": list(containers) or [container(claims=claims if refers else (), requested=requested)],
        "initContainers": list(init),
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
        **({"resources": own} if level or limits else {}),
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return PodInfo(convert(POD.type, {"metadata": metadata, "spec": spec}))


def world(*devices, claims, gates, cpu="4", memory="8Gi", extra=()):
    nodes = [make_node("n1", cpu=cpu, memory=memory)]
    objects = [resource_slice("s", *devices, node="n1"), device_class(), *claims, *extra]
    return make_cluster(*nodes, *objects, gates=gates)


def place(cluster, each):
    """Decide about a pod and count it. Returns its status about claims, by claim, or the message of its rejection."""
    decision = cluster.decide(each)
    if decision.node is None:
        return decision.message.partition(". ")[0].removeprefix("0/1 nodes are available: 1 ")
    assumed = cluster.state.assume(assumed_as(decision.cycle, each, decision.node), decision.node)
    run_reserve(cluster.profile, decision.cycle, assumed, decision.node)
    state = decision.cycle.data["DynamicResources"]
    if state is None:
        return {}
    for index, known in enumerate(state.claims):
        allocation = state.decided.get(index) or state.allocation(index)
        reserved = [*reservations(known), state.consumer(index, each)]
        known.status = ResourceClaimStatus(allocation=allocation, reservedFor=reserved)
        cluster.state.objects[RESOURCE_CLAIM].set(f"default/{known.metadata.name}", known)
    return {one.resourceClaimName: one for one in state.taken}
