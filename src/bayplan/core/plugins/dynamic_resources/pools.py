"""The pools of devices that a node can use. Mirrors structured/internal/*/pools_*.go (GatherPools).

A pool without all slices of its generation is incomplete, and provides nothing until its driver has published them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan.core.devices.slices import DeviceSlices, PoolId, Slice, SliceDevice
from bayplan.core.plugins.dynamic_resources.rules import SearchRules


@dataclass(eq=False, slots=True)
class Pool:
    """A pool as seen from a node. `devices` come from the slices for the node; `other_slices` are the pool's others.

    A pool is `incomplete` while its driver is publishing it. Incomplete and `invalid` pools provide no devices.
    `counts_down` means that no other pool has its name, and that no device adds to its counters.
    """

    id: PoolId
    devices: tuple[SliceDevice, ...] = ()
    other_slices: list[Slice] = field(default_factory=list)
    counter_sets: dict[str, Mapping[str, int]] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""
    """The reason, "" for a valid pool."""
    counts_down: bool = False
    has_groups: bool = False
    """Whether any device of the pool, here or elsewhere, has compatibility groups."""
    candidates: dict[Hashable, Any] = field(default_factory=dict)
    """What is known about its devices for each kind of demand, until an allocation changes."""

    @property
    def has_binding_conditions(self) -> bool:
        """Whether any of its devices has binding conditions."""
        return any(device.spec.bindingConditions is not None for device in self.devices)


def slices_for(slices: DeviceSlices, node_name: str, labels: Mapping[str, str], rules: SearchRules) -> list[Slice]:
    """The slices with devices for a node, its own first. Raises ValueError for an invalid node selector.

    If the rules place counters, slices with counters for the node are among them.
    """
    here, shared = slices.by_node.get(node_name, {}), slices.shared
    if rules.places_counters:
        here, shared = here | slices.counting_by_node.get(node_name, {}), shared | slices.counting_shared
    return [each for each in (*_by_name(here), *_by_name(shared)) if each.targets(node_name, labels)]


class Views:
    """The views of pools from nodes. Nodes with the same slices of a pool share one."""

    def __init__(self, slices: DeviceSlices, rules: SearchRules) -> None:
        self._slices = slices
        self._rules = rules
        self._by_pool: dict[PoolId, dict[tuple[str, ...], Pool | None]] = {}
        """By the names of the slices."""

    def forget(self, pool: PoolId) -> None:
        """Forget the views of a pool."""
        self._by_pool.pop(pool, None)

    def changed(self, pool: PoolId) -> None:
        """Handle a change of a pool's allocations."""
        for view in self._by_pool.get(pool, {}).values():
            if view is not None:
                view.candidates.clear()

    def gather(
        self, node_slices: Iterable[Slice], without_devices: Mapping[PoolId, Pool]
    ) -> tuple[list[Pool], Collection[PoolId]]:
        """The pools of a node with the given slices, and the IDs of all pools of these slices.

        The pools are in search order: by driver and name, with pools that have binding conditions last. Outdated slices
        are ignored. Pools that are being replaced are in the IDs only. `without_devices` are the pools that the node
        sees although it has no device of them.
        """
        used = {} if self._rules.places_counters else {each.pool: None for each in node_slices}
        counting = self._slices.counting
        found = _newest((*node_slices, *(each for pool in used for each in _by_name(counting.get(pool, {})))))
        pools = [self._view(pool, own) for pool, own in found.items()]
        pools += [pool for pool_id, pool in without_devices.items() if pool_id not in found]
        present = [pool for pool in pools if pool is not None and (pool.devices or not self._is_only_counters(pool))]
        return sorted(present, key=lambda pool: (pool.has_binding_conditions, pool.id)), found.keys()

    def _is_only_counters(self, pool: Pool) -> bool:
        """Whether the node has no device of a pool, but sees its counters, which are all right."""
        return self._rules.places_counters and not pool.incomplete and not pool.invalid

    def _view(self, pool_id: PoolId, own: list[Slice]) -> Pool | None:
        views = self._by_pool.setdefault(pool_id, {})
        names = tuple(each.name for each in own)
        if names not in views:
            view = views[names] = _pool(pool_id, own, self._slices.by_pool[pool_id].values())
            if view is not None:
                view.counts_down = not self._slices.is_ambiguous(pool_id) and all(
                    amount >= 0
                    for device in view.devices
                    for each in device.counters.values()
                    for amount in each.values()
                )
        return views[names]


def pool_without_devices(slices: DeviceSlices, pool_id: PoolId) -> Pool | None:
    """The view of a pool from nodes that have only its counter slices; None if they don't see it at all."""
    own = _newest(_by_name(slices.counting.get(pool_id, {}))).get(pool_id)
    return None if own is None else _pool(pool_id, own, slices.by_pool[pool_id].values())


def _by_name(slices: Mapping[str, Slice]) -> Iterable[Slice]:
    """The slices by name: if slices of a pool contradict each other, the first one counts."""
    return (slices[name] for name in sorted(slices))


def _newest(slices: Iterable[Slice]) -> dict[PoolId, list[Slice]]:
    newest: dict[PoolId, list[Slice]] = {}
    for each in slices:
        known = newest.get(each.pool)
        if known is None or each.generation > known[0].generation:
            newest[each.pool] = [each]
        elif each.generation == known[0].generation:
            known.append(each)
    return newest


def _pool(pool_id: PoolId, own: list[Slice], everything: Iterable[Slice]) -> Pool | None:
    """The pool of a node's slices; None if the slices are being replaced by a newer generation."""
    generation, count = own[0].generation, own[0].slice_count
    if len(own) == count:
        return _checked(Pool(pool_id), own, [])
    if any(each.generation > generation for each in everything):
        return None
    current = [each for each in everything if each.generation == generation]
    if len(current) != count:
        return Pool(pool_id, incomplete=True)
    seen = {each.name for each in own}
    return _checked(Pool(pool_id), own, [each for each in current if each.name not in seen])


def _checked(pool: Pool, own: list[Slice], others: list[Slice]) -> Pool:
    own = sorted([*own, *(each for each in others if each.counter_sets)], key=lambda each: each.name)
    others = [each for each in others if not each.counter_sets]
    with_devices = [each for each in own if not each.counter_sets]
    pool.invalid = _duplicate_device(with_devices) or _take_counter_sets(pool, own)
    pool.invalid = pool.invalid or _unknown_counter(pool, own) or _unknown_counter(pool, others)
    if not pool.invalid:
        pool.devices = tuple(device for each in with_devices for device in each.devices)
        pool.other_slices = others
        pool.has_groups = bool(pool.counter_sets) and any(
            device.groups for each in (*with_devices, *others) for device in each.devices
        )
    return pool


def _duplicate_device(slices: Iterable[Slice]) -> str:
    names: set[str] = set()
    for each in slices:
        for device in each.devices:
            if device.spec.name in names:
                return f"duplicate device name {device.spec.name}"
            names.add(device.spec.name)
    return ""


def _take_counter_sets(pool: Pool, slices: Iterable[Slice]) -> str:
    for each in slices:
        for name, counters in each.counter_sets:
            if name in pool.counter_sets:
                return f"duplicate counter set name {name}"
            pool.counter_sets[name] = counters
    return ""


def _unknown_counter(pool: Pool, slices: Iterable[Slice]) -> str:
    for each in slices:
        for device in each.devices:
            for set_name, counters in device.counters.items():
                known = pool.counter_sets.get(set_name)
                if known is None:
                    return f"counter set {set_name} not found"
                unknown = next((name for name in counters if name not in known), None)
                if unknown is not None:
                    return f"counter {unknown} not found in counter set {set_name}"
    return ""
