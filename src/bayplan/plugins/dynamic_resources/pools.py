"""The pools of devices that a node can reach. Mirrors structured/internal/*/pools_*.go (GatherPools)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from bayplan.devices.slices import DeviceSlices, PoolId, Slice, SliceDevice


@dataclass(slots=True)
class Pool:
    """A pool as a node sees it: `devices` are those of the slices for the node, `elsewhere` the pool's other slices.

    Nothing is allocated from a pool that is `incomplete`, for it is being published at the moment, or `invalid`.
    """

    id: PoolId
    devices: tuple[SliceDevice, ...] = ()
    elsewhere: list[Slice] = field(default_factory=list)
    counter_sets: dict[str, Mapping[str, int]] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""
    """Why it is, if it is."""

    @property
    def waits_for_binding(self) -> bool:
        """Whether any of its devices has conditions for binding."""
        return any(device.spec.bindingConditions is not None for device in self.devices)


def slices_for(slices: DeviceSlices, node_name: str, labels: Mapping[str, str]) -> list[Slice]:
    """The slices with devices for a node: first those of its own. Raises ValueError for a node selector that cannot be
    read.
    """
    here, shared = slices.by_node.get(node_name, {}), slices.shared
    return [each for each in (*_by_name(here), *_by_name(shared)) if each.concerns(node_name, labels)]


def gather_pools(
    slices: DeviceSlices, concerning: Iterable[Slice], elsewhere: Mapping[PoolId, Pool]
) -> tuple[list[Pool], Collection[PoolId]]:
    """The pools that nodes learn of which have certain slices, in the order in which devices are looked for: by driver
    and name, those whose devices wait for binding last. Then all pools of the slices, those included that are being
    replaced.

    `elsewhere` are views of pools that count unless there are devices of the pool. Out-dated slices are left out.
    """
    reached = {each.pool: None for each in concerning}
    found = _newest((*concerning, *(each for pool in reached for each in _by_name(slices.counting.get(pool, {})))))
    pools = [_pool(pool, own, slices.by_pool[pool].values()) for pool, own in found.items()]
    pools += [pool for pool_id, pool in elsewhere.items() if pool_id not in found]
    present = [pool for pool in pools if pool is not None]
    return sorted(present, key=lambda pool: (pool.waits_for_binding, pool.id)), found.keys()


def pool_elsewhere(slices: DeviceSlices, pool_id: PoolId) -> Pool | None:
    """A pool as nodes see it that only learn of its counters; None where they do not even learn of it."""
    own = _newest(_by_name(slices.counting.get(pool_id, {}))).get(pool_id)
    return None if own is None else _pool(pool_id, own, slices.by_pool[pool_id].values())


def _by_name(slices: Mapping[str, Slice]) -> Iterable[Slice]:
    """In an order of their own: where slices of a pool disagree, the first counts."""
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
        pool.devices = tuple(device for each in with_devices for device in each.devices)
        pool.elsewhere = elsewhere
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
