"""Compiles the selectors of device classes and claims when these arrive, so that no attempt has to wait for that.

It runs in the plugin's `background` task, one selector a turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from lightkube.models.resource_v1 import DeviceClass, DeviceSelector, ResourceClaim

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.devices.cel.selectors import MOST_COMPILED, Selectors, import_compiler

Until = Callable[[Callable[[], bool], Iterable[ObjectStore], float], Awaitable[object]]
_LONG = 3600.0


class CompilingAhead:
    """The selectors that nothing has compiled yet, in the order in which they came.

    One that can't be compiled costs only itself: what is wrong with it is said to the pods that use it. If too many
    come at once, the attempts compile the rest.
    """

    def __init__(self, selectors: Selectors, classes: ObjectStore, claims: ObjectStore) -> None:
        self._selectors = selectors
        self._stores = classes, claims
        self._waiting: dict[str, None] = {}
        classes.follow(lambda before, now: self._changed(_of_class(before), _of_class(now)))
        claims.follow(lambda before, now: self._changed(_of_claim(before), _of_claim(now)))

    async def run(self, until: Until) -> None:
        """Compile what comes, one selector a turn. `until` waits as `Handle.until` does."""
        while True:
            await until(lambda: bool(self._waiting), self._stores, _LONG)
            for _ in import_compiler() if self._waiting else ():
                await asyncio.sleep(0)
            while self._waiting:
                expression = next(iter(self._waiting))
                del self._waiting[expression]
                self._selectors.prepare(expression)
                await asyncio.sleep(0)

    def _changed(self, before: Iterable[str], now: Iterable[str]) -> None:
        known = frozenset(before)
        for expression in now:
            if expression not in known and len(self._waiting) < MOST_COMPILED:
                self._waiting[expression] = None


def _of_class(device_class: DeviceClass | None) -> Iterator[str]:
    if device_class is not None and device_class.spec is not None:
        yield from _expressions(device_class.spec.selectors)


def _of_claim(claim: ResourceClaim | None) -> Iterator[str]:
    """Of claims that aren't allocated yet."""
    if claim is None or (claim.status is not None and claim.status.allocation is not None) or claim.spec is None:
        return
    devices = claim.spec.devices
    for request in (devices.requests if devices is not None else None) or ():
        requests: list[Any] = [request.exactly, *(request.firstAvailable or ())]
        for each in requests:
            if each is not None:
                yield from _expressions(each.selectors)


def _expressions(selectors: Iterable[DeviceSelector] | None) -> Iterator[str]:
    return (each.cel.expression for each in selectors or () if each.cel is not None)
