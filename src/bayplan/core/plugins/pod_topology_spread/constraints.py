"""Spread constraints: a pod's own, or the defaults with a selector derived from the pod's services and controller.

Mirrors plugins/podtopologyspread/common.go and plugins/helper/spread.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lightkube.models import core_v1

from bayplan.core.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET, Kind
from bayplan.core.api.labels import InvalidSelector, LabelSelector, Requirement
from bayplan.core.api.objects import decode, encode
from bayplan.core.api.selectors import label_selector
from bayplan.core.api.sharing import shared
from bayplan.core.api.well_known_labels import HOSTNAME, ZONE
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import GroupKey, PodSelector, labels_key
from bayplan.core.framework.handle import Handle

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"

SYSTEM_DEFAULTS = (
    core_v1.TopologySpreadConstraint(maxSkew=3, topologyKey=HOSTNAME, whenUnsatisfiable=SOFT),
    core_v1.TopologySpreadConstraint(maxSkew=5, topologyKey=ZONE, whenUnsatisfiable=SOFT),
)
"""The constraints for pods without constraints, if the arguments set `defaultingType: System`."""

OWNERS: Mapping[tuple[str, str], Kind] = {
    (kind.api_version, kind.kind): kind for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)
}
SOURCES = (SERVICE, *OWNERS.values())
"""The kinds from which the selectors of default constraints are derived."""
_MAX_FOUND = 1024
_UNKNOWN: Any = object()


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A parsed constraint. A selector of None matches nothing."""

    max_skew: int
    topology_key: str
    selector: LabelSelector | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    def group(self, namespace: str) -> GroupKey:
        """Return the selector group of the counted pods. As upstream, an empty selector counts none."""
        selector = self.selector if self.selector is not None and self.selector.requirements else None
        return (PodSelector(frozenset({namespace}), selector),)

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels is counted, which is what the selector group `group` decides."""
        return self.selector is not None and bool(self.selector.requirements) and self.selector.matches(labels)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches the labels of a pod."""
        return self.selector is not None and self.selector.matches(labels)


_ByAction = Mapping[str, tuple[SpreadConstraint, ...]]
"""Constraints by their `whenUnsatisfiable`."""


def own_constraints(pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
    """Return the pod's own constraints with one value of `whenUnsatisfiable`. Raises InvalidSelector."""
    by_action: dict[str, tuple[SpreadConstraint, ...] | InvalidSelector] | None = pod.cache.get(SpreadConstraint)
    if by_action is None:
        constraints = pod.spec.topologySpreadConstraints or ()
        names = {name for each in constraints for name in each.matchLabelKeys or ()}
        labels = tuple([(name, pod.labels[name]) for name in sorted(names & pod.labels.keys())]) if names else ()
        by_action = pod.cache[SpreadConstraint] = _parse_json(constraints_json(pod), labels)
    found = by_action[action]
    if isinstance(found, InvalidSelector):
        raise InvalidSelector(*found.args)
    return found


def constraints_json(pod: PodInfo) -> bytes:
    """Return the pod's own constraints as JSON."""
    return pod.of_spec(SpreadConstraint, lambda pod: encode(pod.spec.topologySpreadConstraints or ()))


@shared
def _parse_json(
    constraints_json: bytes, labels: tuple[tuple[str, str], ...]
) -> dict[str, tuple[SpreadConstraint, ...] | InvalidSelector]:
    """Call `parse` for each action. The arguments are hashable, so that pods of one workload share the result."""
    constraints = decode(list[core_v1.TopologySpreadConstraint], constraints_json)
    by_action: dict[str, tuple[SpreadConstraint, ...] | InvalidSelector] = {}
    for action in (HARD, SOFT):
        try:
            by_action[action] = parse(constraints, dict(labels), action)
        except InvalidSelector as error:
            by_action[action] = InvalidSelector(*error.args)
    return by_action


def parse(
    constraints: Iterable[core_v1.TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[SpreadConstraint, ...]:
    """Parse the constraints with one value of `whenUnsatisfiable`, for a pod with these labels.

    Raises InvalidSelector.
    """
    return tuple(
        SpreadConstraint(
            constraint.maxSkew,
            constraint.topologyKey,
            _with_match_labels(label_selector(constraint.labelSelector), constraint.matchLabelKeys or (), labels),
            1 if constraint.minDomains is None else constraint.minDomains,
            constraint.nodeAffinityPolicy in {None, "Honor"},
            constraint.nodeTaintsPolicy == "Honor",
        )
        for constraint in constraints
        if constraint.whenUnsatisfiable == action
    )


class DefaultConstraints:
    """The default constraints of pods that have no constraints, but match a service or have a known controller."""

    def __init__(self, constraints: Iterable[core_v1.TopologySpreadConstraint], handle: Handle) -> None:
        self._constraints = {action: parse(constraints, {}, action) for action in (HARD, SOFT)}
        self._stores = {kind: handle.objects(kind) for kind in SOURCES}
        self._found: dict[Hashable, _ByAction | None] = {}
        """The constraints of pods, by the labels and controllers; None for those without a selector."""
        self._services: dict[str, list[dict[str, str]]] | None = None
        """By namespace: the selectors of services; None after one changed."""
        for store in self._stores.values():
            store.listen(self._changed)

    def apply_to(self, pod: PodInfo) -> bool:
        """Return whether there are default constraints for a pod without constraints."""
        return bool(self._constraints[HARD] or self._constraints[SOFT]) and self._by_action(pod) is not None

    def of(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the default constraints for a pod with one value of `whenUnsatisfiable`."""
        by_action = self._by_action(pod) if self._constraints[action] else None
        return by_action[action] if by_action is not None else ()

    def _by_action(self, pod: PodInfo) -> _ByAction | None:
        owner = _controller(pod)
        key = labels_key(pod), owner if owner is not None and owner[:2] in OWNERS else None
        by_action: _ByAction | None = self._found.get(key, _UNKNOWN)
        if by_action is _UNKNOWN:
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            by_action = self._found[key] = self._derive(self._selector(pod))
        return by_action

    def _derive(self, selector: LabelSelector | None) -> _ByAction | None:
        if selector is None:
            return None
        return {
            action: tuple([replace(each, selector=selector) for each in constraints])
            for action, constraints in self._constraints.items()
        }

    def _changed(self, before: Any, now: Any) -> None:
        """Most updates of controllers change only their status."""
        if _selector_of(before) != _selector_of(now):
            self._found.clear()
            self._services = None

    def _selector(self, pod: PodInfo) -> LabelSelector | None:
        """Combine the selectors of all services that match the pod, and of its controller. Mirrors DefaultSelector."""
        merged: dict[str, str] = {}
        if self._services is None:
            self._services = self._services_by_namespace()
        for selector in self._services.get(pod.namespace, ()):
            if all(pod.labels.get(key) == value for key, value in selector.items()):
                merged |= selector
        more: tuple[Requirement, ...] = ()
        owner = _controller(pod)
        kind = OWNERS.get(owner[:2]) if owner is not None else None
        controller = self._stores[kind].get(f"{pod.namespace}/{owner[2]}") if kind and owner else None
        if controller is not None and controller.spec is not None:
            if kind is REPLICATION_CONTROLLER:
                merged |= controller.spec.selector or {}
            else:
                more = _requirements(controller.spec.selector)
        requirements = tuple(Requirement(key, "=", (value,)) for key, value in sorted(merged.items()))
        return LabelSelector(requirements + more) if requirements or more else None

    def _services_by_namespace(self) -> dict[str, list[dict[str, str]]]:
        services: dict[str, list[dict[str, str]]] = {}
        for service in self._stores[SERVICE].values():
            if service.spec is not None and service.spec.selector is not None:
                services.setdefault(service.metadata.namespace or "default", []).append(service.spec.selector)
        return services


def _selector_of(obj: Any) -> Any:
    """Return the selector of a service or a controller; None if there is no such object."""
    return obj.spec.selector if obj is not None and obj.spec is not None else None


def _requirements(selector: Any) -> tuple[Requirement, ...]:
    try:
        parsed = label_selector(selector)
    except InvalidSelector:
        return ()
    return parsed.requirements if parsed is not None else ()


def _controller(pod: PodInfo) -> tuple[str, str, str] | None:
    """Return (apiVersion, kind, name) of the pod's controller."""
    for owner in pod.metadata.ownerReferences or ():
        if owner.controller:
            return owner.apiVersion, owner.kind, owner.name
    return None


def _with_match_labels(
    selector: LabelSelector | None, keys: Iterable[str], labels: Mapping[str, str]
) -> LabelSelector | None:
    """Add the pod's values of `matchLabelKeys` to the selector, if the API server has not done so."""
    more = tuple(Requirement(key, "=", (labels[key],)) for key in sorted(keys) if key in labels)
    if selector is None or not more:
        return selector
    return LabelSelector(more + tuple(each for each in selector.requirements if each not in more))
