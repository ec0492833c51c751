"""Pods with claims for devices that provide resources of their node, and a cluster that places them."""

from lightkube.models.resource_v1 import ResourceClaimStatus

from bayplan.core.api.kinds import POD, RESOURCE_CLAIM
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import reservations
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.binding_runner import run_reserve
from bayplan.testing import make_cluster, make_node
from devices import device, device_class, resource_slice

NOT_SHARED = "node allocatable resource claim c has a mapped device and cannot be shared across pods"
BOTH = {"perPod": "1Gi", "perContainer": "500Mi"}


def provider(name="a", capacity=None, *, resources, **fields):
    return device(name, capacity, nodeAllocatableResources=resources, **fields)


def each(**amounts):
    """A fixed amount for each device."""
    return {name: {"mapping": {"deviceMultiplier": amount}} for name, amount in amounts.items()}


def needs(resource="memory", **overhead):
    return {resource: {"overhead": overhead}}


def taken(found):
    """What a status says, by claim: the containers, the mapped amounts, and the overhead for pods and containers."""
    if isinstance(found, str):
        return found
    return {
        name: (
            list(one.containers or ()),
            {amount.name: amount.quantity for amount in one.mapping or ()},
            {amount.name: (amount.perPod, amount.perContainer) for amount in one.overhead or ()},
        )
        for name, one in found.items()
    }


def container(name="main", claims=(), requested=None, limits=None):
    resources = {"requests": requested or {}, "limits": limits or {}, "claims": [{"name": each} for each in claims]}
    return {"name": name, "image": "i", "resources": resources}


def pod(name, *claims, refers=True, level=None, limits=None, containers=(), init=(), group="", **requested):
    """A pod with claims. Without `containers`, it has one, which uses all of them. `level` and `limits` are its own."""
    own = {"requests": level or {}, "limits": limits or {}}
    spec = {
        "containers": list(containers) or [container(claims=claims if refers else (), requested=requested)],
        "initContainers": list(init),
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
        **({"resources": own} if level or limits else {}),
        **({"schedulingGroup": {"podGroupName": group}} if group else {}),
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return PodInfo(convert(POD.type, {"metadata": metadata, "spec": spec}))


def world(*devices, claims, gates, cpu="4", memory="8Gi", extra=()):
    nodes = [make_node("n1", cpu=cpu, memory=memory)]
    objects = [resource_slice("s", *devices, node="n1"), device_class(), *claims, *extra]
    return make_cluster(*nodes, *objects, gates=gates)


def place(cluster, asking):
    """Decide about a pod and count it. Returns its status about claims, by claim, or the message of its rejection."""
    decision = cluster.decide(asking)
    if decision.node is None:
        return decision.message.partition(". ")[0].removeprefix("0/1 nodes are available: 1 ")
    assumed = cluster.state.assume(assumed_as(decision.cycle, asking, decision.node), decision.node)
    run_reserve(cluster.profile, decision.cycle, assumed, decision.node)
    state = decision.cycle.data["DynamicResources"]
    if state is None:
        return {}
    for index, known in enumerate(state.claims):
        allocation = state.decided.get(index) or state.allocation(index)
        reserved = [*reservations(known), state.consumer(index, asking)]
        known.status = ResourceClaimStatus(allocation=allocation, reservedFor=reserved)
        cluster.state.objects[RESOURCE_CLAIM].set(f"default/{known.metadata.name}", known)
    return {one.resourceClaimName: one for one in state.taken}
