"""The pools of devices that a node can reach. Mirrors structured/internal/*/pools_*.go (GatherPools)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.cluster.device_slices import DeviceSlices, PoolId, Slice, SliceDevice


@dataclass(slots=True)
class Pool:
    """A pool as a node sees it: `slices` are those with devices for the node, `elsewhere` the pool's others.

    Nothing is allocated from a pool that is `incomplete`, for it is being published at the moment, or `invalid`.
    """

    id: PoolId
    slices: list[Slice] = field(default_factory=list)
    elsewhere: list[Slice] = field(default_factory=list)
    counter_sets: dict[str, Mapping[str, int]] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""
    """Why it is, if it is."""

    def devices(self) -> Iterable[SliceDevice]:
        """All devices of the slices for the node, in order."""
        for each in self.slices:
            yield from each.devices

    @property
    def waits_for_binding(self) -> bool:
        """Whether any of its devices has conditions for binding."""
        return any(device.spec.bindingConditions is not None for device in self.devices())


def gather_pools(slices: DeviceSlices, node_name: str, labels: Mapping[str, str]) -> list[Pool]:
    """The pools that a node can reach, by driver and name; those whose devices wait for binding come last.

    Out-dated slices are left out. Raises ValueError for a node selector that cannot be read.
    """
    newest: dict[PoolId, list[Slice]] = {}
    for each in (*slices.by_node.get(node_name, ()), *slices.shared):
        if not each.concerns(node_name, labels):
            continue
        known = newest.get(each.pool)
        if known is None or each.generation > known[0].generation:
            newest[each.pool] = [each]
        elif each.generation == known[0].generation:
            known.append(each)
    pools = []
    for pool_id, own in newest.items():
        pool = _pool(pool_id, own, slices.by_pool[pool_id])
        if pool is not None:
            pools.append(pool)
    return sorted(pools, key=lambda pool: (pool.waits_for_binding, pool.id))


def _pool(pool_id: PoolId, own: list[Slice], everything: list[Slice]) -> Pool | None:
    """The pool of the slices that a node sees; None where these are being replaced."""
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


def _checked(pool: Pool, own: list[Slice], elsewhere: list[Slice]) -> Pool:
    own = sorted(own, key=lambda each: each.name)
    with_devices = [each for each in own if not each.counter_sets]
    pool.invalid = _duplicate_device(with_devices) or _take_counter_sets(pool, own)
    pool.invalid = pool.invalid or _unknown_counter(pool, own) or _unknown_counter(pool, elsewhere)
    if not pool.invalid:
        pool.slices, pool.elsewhere = with_devices, elsewhere
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
