"""How pods fare: how long they wait, how many are never placed or are evicted, and how services spread over zones."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

from bayplan.answers.simulation.quantiles import DurationSketch

_FEW = 3
"""A service with fewer pods than these is in one zone often enough."""
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Waits:
    """How long pods waited for their node, in seconds; None if none got one."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """How unevenly a service is spread over zones: the largest share of its pods in one zone, on average over time."""

    service: str
    share: float


@dataclass(slots=True)
class MeteredPods:
    """What becomes of pods.

    `pending`: the keys of those without a node. `placed`: how many got one. `evictions`: by reason. `never_placed`: how
    many never got one, `unplaced` names some of these.
    """

    pending: dict[str, None] = field(default_factory=dict)
    placed: int = 0
    evictions: Counter[str] = field(default_factory=Counter)
    never_placed: int = 0
    unplaced: list[str] = field(default_factory=list)
    _waits: DurationSketch = field(default_factory=DurationSketch)

    @property
    def waits(self) -> Waits:
        """How long they waited."""
        return Waits(*(self._waits.quantile(share) for share in (0.5, 0.95, 0.99)))

    def got_node(self, key: str, wait: float | None) -> None:
        """A pod has got its node, after so many seconds; None if no scheduler decided about it."""
        self.pending.pop(key, None)
        if wait is not None:
            self._waits.add(wait)
            self.placed += 1

    def left_without_node(self, key: str) -> None:
        """A pod is gone, or it is the end, and it never got a node."""
        self.pending.pop(key, None)
        self.never_placed += 1
        if len(self.unplaced) < _SHOWN:
            self.unplaced.append(key)


@dataclass(slots=True)
class _Service:
    zones: Counter[str] = field(default_factory=Counter)
    shares: float = 0.0
    samples: int = 0


class ServiceSpread:
    """How the pods of services are spread over zones, as samples over time show."""

    def __init__(self) -> None:
        self._services: dict[str, _Service] = {}

    def add(self, service: str, zone: str) -> None:
        """A pod of a service is in a zone."""
        self._services.setdefault(service, _Service()).zones[zone] += 1

    def remove(self, service: str, zone: str) -> None:
        """A pod is gone. A service without pods is forgotten, unless a sample has it."""
        known = self._services.get(service)
        if known is not None:
            known.zones[zone] -= 1
            if not known.zones.total() and not known.samples:
                del self._services[service]

    def sample(self) -> None:
        """Look at the services that have some pods now."""
        for service in self._services.values():
            pods = service.zones.total()
            if pods >= _FEW:
                service.shares += max(service.zones.values()) / pods
                service.samples += 1

    def widest(self) -> tuple[Spread | None, float | None]:
        """Return the service whose pods are the most in one zone, and the share of the median service."""
        spreads = [Spread(name, each.shares / each.samples) for name, each in self._services.items() if each.samples]
        if not spreads:
            return None, None
        widest = max(spreads, key=lambda each: (each.share, each.service))
        return widest, statistics.median(each.share for each in spreads)
