"""Builds the AllocationResult of a claim. Mirrors the end of Allocate in structured/internal/*/allocator_*.go."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import NAMESPACE_OID, uuid5

from lightkube.models.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from lightkube.models.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)

from bayplan.core.api.quantity import NANO
from bayplan.core.api.selectors import NAME_FIELD
from bayplan.core.devices.claims import results_of
from bayplan.core.devices.classes import configuration_of
from bayplan.core.devices.requests import DeviceDemand, devices_of
from bayplan.core.plugins.dynamic_resources.rules import SearchRules
from bayplan.core.plugins.dynamic_resources.solutions import AllocationError, Grant, Granted


def allocation_result(granted: Granted, node_name: str, rules: SearchRules) -> AllocationResult:
    """The result for one claim. Raises AllocationError for a slice with an unsupported node selector."""
    claim = granted.claim
    uid = (claim.metadata.uid if claim.metadata is not None else None) or ""
    results = [_result(grant, f"{uid}/{index}/{grant.device.id}") for index, grant in enumerate(granted.grants)]
    config = [*_class_configuration(granted), *_claim_configuration(granted, once=rules.sums_up_configuration)]
    for each in config if rules.sums_up_configuration else ():
        if each.requests and all(_names(each.requests, demand) for demand, _ in granted.chosen):
            each.requests = None
    return AllocationResult(
        devices=DeviceAllocationResult(config=config or None, results=results),
        nodeSelector=node_selector(granted, node_name),
    )


def _result(grant: Grant, unique: str) -> DeviceRequestAllocationResult:
    device, demand = grant.device, grant.demand
    consumed = {name: _text(amount) for name, amount in (grant.consumed or {}).items()}
    return DeviceRequestAllocationResult(
        request=demand.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        adminAccess=True if demand.admin_access else None,
        tolerations=list(demand.tolerations) or None,
        shareID=str(uuid5(NAMESPACE_OID, unique)) if grant.consumed is not None else None,
        consumedCapacity=consumed or None,
        bindingConditions=device.spec.bindingConditions,
        bindingFailureConditions=device.spec.bindingFailureConditions,
    )


def _text(nanos: int) -> str:
    """An exact quantity."""
    whole, rest = divmod(nanos, NANO)
    if rest:
        return f"{nanos}n"
    for suffix, shift in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if whole and whole % (1 << shift) == 0:
            return f"{whole >> shift}{suffix}"
    return str(whole)


def _class_configuration(granted: Granted) -> list[DeviceAllocationConfiguration]:
    """The configuration of each class, once for all requests that use it."""
    requests: dict[str, list[str]] = {}
    for demand, device_class in granted.chosen:
        requests.setdefault((device_class.metadata and device_class.metadata.name) or "", []).append(demand.full_name)
    classes = {(each.metadata and each.metadata.name) or "": each for _, each in granted.chosen}
    return [
        DeviceAllocationConfiguration(source="FromClass", requests=list(names), opaque=config.opaque)
        for class_name, names in requests.items()
        for config in configuration_of(classes[class_name])
    ]


def _claim_configuration(granted: Granted, *, once: bool) -> list[DeviceAllocationConfiguration]:
    """The claim's own configuration for the chosen requests and alternatives: once, or for each of them."""
    devices = devices_of(granted.claim)
    found = []
    for config in (devices.config if devices is not None else None) or ():
        named = config.requests or ()
        times = 1 if not named else 0
        times += sum(_names(named, demand) for demand, _ in granted.chosen)
        found += [
            DeviceAllocationConfiguration(source="FromClaim", requests=config.requests, opaque=config.opaque)
            for _ in range(min(times, 1) if once else times)
        ]
    return found


def _names(requests: Sequence[str], demand: DeviceDemand) -> bool:
    """Whether some names of requests include that of a request or of its alternative."""
    return demand.base_name in requests or (bool(demand.parent) and demand.full_name in requests)


def node_selector(granted: Granted, node_name: str) -> NodeSelector | None:
    """The nodes on which all devices can be used; None for all nodes. Raises AllocationError for several terms."""
    fields: list[NodeSelectorRequirement] = []
    labels: list[NodeSelectorRequirement] = []
    for grant in granted.grants:
        spec = grant.device.spec if grant.device.parent.per_device else grant.device.parent.obj.spec
        if spec.nodeName is not None or grant.device.spec.bindsToNode:
            only = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=[node_name])
            return NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchFields=[only])])
        terms = (spec.nodeSelector.nodeSelectorTerms if spec.nodeSelector is not None else None) or ()
        if len(terms) > 1:
            problem = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            name = granted.claim.metadata.name if granted.claim.metadata is not None else ""
            raise AllocationError(f"create NodeSelector for claim {name}: {problem}")
        for term in terms:
            _add(fields, term.matchFields)
            _add(labels, term.matchExpressions)
    if not fields and not labels:
        return None
    return NodeSelector(
        nodeSelectorTerms=[NodeSelectorTerm(matchExpressions=labels or None, matchFields=fields or None)]
    )


def _add(requirements: list[NodeSelectorRequirement], more: list[NodeSelectorRequirement] | None) -> None:
    known = {(each.key, each.operator, frozenset(each.values or ())) for each in requirements}
    for each in more or ():
        identity = (each.key, each.operator, frozenset(each.values or ()))
        if identity not in known:
            known.add(identity)
            requirements.append(each)


def results_of_subrequests(allocation: AllocationResult) -> frozenset[str]:
    """The full names of the alternatives that an allocation chose."""
    return frozenset(result.request for result in results_of(allocation) if result.request.count("/") == 1)
