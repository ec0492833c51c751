"""Resource slices, parsed once and indexed by node and pool.

Mirrors k8s.io/dynamic-resource-allocation/api (the internal types), and how structured.NewAllocator sorts slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from lightkube.models.core_v1 import NodeSelector as NodeSelectorObject
from lightkube.models.resource_v1 import Device, DeviceTaint, DeviceTaintRule, ResourceSlice

from bayplan.core.api import quantity
from bayplan.core.api.selectors import NodeSelector, parse_node_selector
from bayplan.core.devices.cel.device import DeviceFacts
from bayplan.core.devices.observable import Observable

K = TypeVar("K")
Counters = Mapping[str, Mapping[str, int]]
"""Nano-units by counter set and counter."""
_NO_GROUPS: Mapping[str, frozenset[str]] = {}


class PoolId(NamedTuple):
    """The identity of a pool."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """The identity of a device."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class SliceNodes:
    """The nodes of a slice or a device: one node, all nodes, those that match a selector, or unspecified."""

    __slots__ = ("all_nodes", "node_name", "selector")

    def __init__(self, node_name: str | None, all_nodes: bool | None, selector: NodeSelectorObject | None) -> None:
        self.node_name = node_name or ""
        self.all_nodes = bool(all_nodes)
        self.selector: NodeSelector | None = parse_node_selector(selector) if selector is not None else None

    @property
    def specified(self) -> bool:
        """Whether any of the three is set."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None

    def includes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one of them. Raises ValueError for an invalid selector. Mirrors NodeMatches."""
        if self.node_name:
            return self.node_name == name
        if self.all_nodes:
            return True
        if self.selector is None:
            return False
        if self.selector.errors:
            raise ValueError(f"failed to parse node selector: {self.selector.errors[0]}")
        return self.selector.matches(labels, name)


class TaintRule(NamedTuple):
    """A DeviceTaintRule: a taint for the devices of any driver, pool and name, unless these are given."""

    name: str
    driver: str | None
    pool: str | None
    device: str | None
    taint: DeviceTaint

    @classmethod
    def of(cls, rule: DeviceTaintRule) -> TaintRule:
        """Read an object."""
        selector, taint = rule.spec.deviceSelector, rule.spec.taint
        driver, pool, device = (selector.driver, selector.pool, selector.device) if selector else (None, None, None)
        added = DeviceTaint(effect=taint.effect, key=taint.key, timeAdded=taint.timeAdded, value=taint.value)
        return cls((rule.metadata.name if rule.metadata else None) or "", driver, pool, device, added)

    def matches(self, device: DeviceId) -> bool:
        """Whether the rule adds its taint to a device."""
        return self.concerns(PoolId(device.driver, device.pool)) and self.device in {None, device.device}

    def concerns(self, pool: PoolId) -> bool:
        """Whether the rule is about devices of a pool."""
        return self.driver in {None, pool.driver} and self.pool in {None, pool.pool}


class SliceDevice:
    """A device of a slice. `counters` is its consumption of the pool's counter sets, in nano-units.

    `added`: the taints of rules, which follow its own.
    """

    def __init__(self, spec: Device, parent: Slice, added: Iterable[DeviceTaint] = ()) -> None:
        self.spec = spec
        self.parent = parent
        self.id = DeviceId(parent.pool.driver, parent.pool.pool, spec.name)
        self.allows_multiple = bool(spec.allowMultipleAllocations)
        self.is_exclusive = not self.allows_multiple and not any(
            each.get("requestPolicy") for each in (spec.capacity or {}).values()
        )
        """Whether one claim gets its entire capacity, without request policies."""
        self.taints: tuple[DeviceTaint, ...] = (*(spec.taints or ()), *added)
        self.attributes: Mapping[str, Mapping[str, Any]] = spec.attributes or {}
        self.counters: Counters = {each.counterSet: _amounts(each.counters) for each in spec.consumesCounters or ()}
        self.groups = _groups(spec) if spec.consumesCounters else _NO_GROUPS
        """Its compatibility groups, by counter set, without the sets for which it has none."""

    @cached_property
    def facts(self) -> DeviceFacts:
        """The device as CEL selectors see it."""
        return DeviceFacts.of(self.id.driver, self.allows_multiple, self.spec.attributes, self.spec.capacity)

    @cached_property
    def place(self) -> SliceNodes:
        """The nodes of the device, for slices with per-device node selection."""
        return SliceNodes(self.spec.nodeName, self.spec.allNodes, self.spec.nodeSelector)

    def attribute(self, name: str) -> Mapping[str, Any] | None:
        """An attribute by its full name `domain/id`. Attributes of the driver's own domain can omit the domain."""
        found = self.attributes.get(name)
        if found is None:
            domain, slash, key = name.partition("/")
            if slash and domain == self.id.driver:
                found = self.attributes.get(key)
        return found


class Slice:
    """A slice of a pool: devices, or counter sets that the pool's devices share. `rules`: those that may taint them."""

    def __init__(self, obj: ResourceSlice, rules: Sequence[TaintRule] = ()) -> None:
        spec = obj.spec
        self.obj = obj
        self.name: str = (obj.metadata.name if obj.metadata else None) or ""
        self.pool = PoolId(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation or 0
        self.slice_count = spec.pool.resourceSliceCount or 0
        self.per_device = bool(spec.perDeviceNodeSelection)
        self.place = SliceNodes(spec.nodeName, spec.allNodes, spec.nodeSelector)
        self.counter_sets: tuple[tuple[str, Mapping[str, int]], ...] = tuple(
            (counter.name, _amounts(counter.counters)) for counter in spec.sharedCounters or ()
        )
        rules = [rule for rule in rules if rule.concerns(self.pool)]
        self.devices = [
            SliceDevice(device, self, [rule.taint for rule in rules if rule.device in {None, device.name}])
            for device in spec.devices or ()
        ]

    def concerns(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the slice has devices for a node, or counters, whose place 1.36 doesn't look at. As `targets`."""
        return bool(self.counter_sets) or self.targets(name, labels)

    def targets(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is one of those that the slice is for. Raises ValueError for an invalid selector."""
        if self.place.specified:
            try:
                return self.place.includes(name, labels)
            except ValueError as error:
                raise ValueError(f"failed to perform node selection for slice {self.name}: {error}") from None
        if self.per_device:
            try:
                return any(device.place.includes(name, labels) for device in self.devices)
            except ValueError as error:
                raise ValueError(
                    f"failed to perform node selection for a device in slice {self.name}: {error}"
                ) from None
        return False


class DeviceSlices:
    """All slices of the cluster, updated incrementally. DeviceTaintRules, if there are `rules`, add taints to devices.

    `without_selector`: whether a rule without a selector taints all devices, and not none. Mirrors
    resourceslice/tracker.
    """

    def __init__(self, slices: Observable, rules: Observable | None = None, *, without_selector: bool = True) -> None:
        self.by_node: dict[str, dict[str, Slice]] = {}
        """node -> name -> slice for this node only"""
        self.shared: dict[str, Slice] = {}
        """name -> slice for several nodes"""
        self.by_pool: dict[PoolId, dict[str, Slice]] = {}
        """pool -> name -> slice"""
        self.counting: dict[PoolId, dict[str, Slice]] = {}
        """pool -> name -> slice with counter sets instead of devices"""
        self.counting_by_node: dict[str, dict[str, Slice]] = {}
        """node -> name -> such a slice for this node only"""
        self.counting_shared: dict[str, Slice] = {}
        """name -> such a slice for several nodes"""
        self._slices: dict[str, Slice] = {}
        self._pools_named: dict[str, set[PoolId]] = {}
        self._stale: dict[str, ResourceSlice | None] = {}
        self._listeners: list[Callable[[Slice], None]] = []
        self._rules: dict[str, TaintRule] = {}
        self._without_selector = without_selector
        slices.listen(self._changed)
        if rules is not None:
            rules.listen(self._rule_changed)

    def listen(self, listener: Callable[[Slice], None]) -> None:
        """Call `listener`, during `refresh`, with every slice that was added or removed."""
        self._listeners.append(listener)

    def refresh(self) -> None:
        """Apply pending changes. Raises ValueError for an invalid slice."""
        while self._stale:
            name, obj = next(iter(self._stale.items()))
            new = Slice(obj, tuple(self._rules.values())) if obj is not None else None
            del self._stale[name]
            old = self._slices.pop(name, None)
            if old is not None:
                self._remove(old)
            if new is not None:
                self._add(new)
            for each in (old, new):
                if each is not None:
                    for listener in self._listeners:
                        listener(each)

    def namesakes(self, pool: PoolId) -> Collection[PoolId]:
        """All existing pools with the name of `pool`, of any driver, including `pool` itself."""
        return self._pools_named.get(pool.pool, ())

    def is_ambiguous(self, pool: PoolId) -> bool:
        """Whether another pool has the same name, or the pool has slices of several generations."""
        slices = self.by_pool.get(pool, {}).values()
        return len(self.namesakes(pool)) > 1 or len({each.generation for each in slices}) > 1

    def _changed(self, before: ResourceSlice | None, now: ResourceSlice | None) -> None:
        changed = now if now is not None else before
        if changed is not None and changed.metadata is not None:
            self._stale[changed.metadata.name or ""] = now

    def _rule_changed(self, before: DeviceTaintRule | None, now: DeviceTaintRule | None) -> None:
        """Let the slices with devices of the old and of the new rule be read again."""
        old, new = self._read(before), self._read(now)
        rules = [rule for rule in (old, new) if rule is not None]
        for rule in rules:
            self._rules.pop(rule.name, None)
        if new is not None:
            self._rules = dict(sorted([*self._rules.items(), (new.name, new)]))
        for name, known in self._slices.items():
            if any(rule.concerns(known.pool) for rule in rules):
                self._stale.setdefault(name, known.obj)

    def _read(self, rule: DeviceTaintRule | None) -> TaintRule | None:
        """Read a rule; None if it taints nothing."""
        if rule is None or not (self._without_selector or rule.spec.deviceSelector is not None):
            return None
        return TaintRule.of(rule)

    def _add(self, new: Slice) -> None:
        self._slices[new.name] = new
        self._pools_named.setdefault(new.pool.pool, set()).add(new.pool)
        self.by_pool.setdefault(new.pool, {})[new.name] = new
        if new.counter_sets:
            self.counting.setdefault(new.pool, {})[new.name] = new
        by_node, shared = self._by_place(new)
        if new.place.node_name:
            by_node.setdefault(new.place.node_name, {})[new.name] = new
        else:
            shared[new.name] = new

    def _by_place(self, of: Slice) -> tuple[dict[str, dict[str, Slice]], dict[str, Slice]]:
        return (self.counting_by_node, self.counting_shared) if of.counter_sets else (self.by_node, self.shared)

    def _remove(self, old: Slice) -> None:
        _drop(self.by_pool, old.pool, old.name)
        if old.pool not in self.by_pool:
            self._pools_named[old.pool.pool].remove(old.pool)
            if not self._pools_named[old.pool.pool]:
                del self._pools_named[old.pool.pool]
        if old.counter_sets:
            _drop(self.counting, old.pool, old.name)
        by_node, shared = self._by_place(old)
        if old.place.node_name:
            _drop(by_node, old.place.node_name, old.name)
        else:
            del shared[old.name]


def _drop(index: dict[K, dict[str, Slice]], key: K, name: str) -> None:
    del index[key][name]
    if not index[key]:
        del index[key]


def _groups(spec: Device) -> Mapping[str, frozenset[str]]:
    consumed = [(each.counterSet, each.compatibilityGroups) for each in spec.consumesCounters or ()]
    return {name: frozenset(groups) for name, groups in consumed if groups}


def _amounts(counters: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: quantity.parse(str(counter.get("value", "0"))) for name, counter in (counters or {}).items()}
