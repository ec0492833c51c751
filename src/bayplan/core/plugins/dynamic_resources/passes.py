"""One pass over the nodes for the claims of a pod: what its searches have found, and the search that it has stopped.

An attempt that gives way begins anew, but its pass is kept: found outcomes hold while nothing they depend on changes.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.devices.claims import uid_of
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.allocator import Search
from bayplan.core.plugins.dynamic_resources.candidates import Path, Supply
from bayplan.core.plugins.dynamic_resources.node_pools import Reach
from bayplan.core.plugins.dynamic_resources.solutions import Granted
from bayplan.foundations.latest import LruDict

_PATHS = 4
"""How many of the latest searches may be the same on other nodes."""
_STOPPED = 16
"""How many passes are kept that have stopped before their end."""

Outcome = list[Granted] | Status


@dataclass(slots=True)
class StoppedSearch:
    """A search that gave way, after `worked` seconds. It can go on while the row has not changed since `version`.

    `search` is None if it has to start anew.
    """

    search: Search | None
    version: int
    worked: float


class Pass:
    """The outcomes of searches for the claims of one pod, which may hold for other nodes as well."""

    def __init__(self, supply: Supply, claims: Sequence[ResourceClaim], version: int) -> None:
        """`version` is that of the pools."""
        self._supply, self._claims, self._version = supply, claims, version
        self._by_reach: dict[Reach, Outcome] = {}
        self._by_row: dict[int, Outcome] = {}
        """Those that hold for one node only."""
        self._paths: deque[tuple[Path, Outcome]] = deque(maxlen=_PATHS)
        self.stopped: dict[int, StoppedSearch] = {}
        """By row."""

    def holds(self, supply: Supply, claims: Sequence[ResourceClaim], version: int) -> bool:
        """Whether the outcomes are for these claims, and nothing has changed since."""
        return supply is self._supply and version == self._version and self._is_for(claims)

    def _is_for(self, claims: Sequence[ResourceClaim]) -> bool:
        return len(claims) == len(self._claims) and all(map(operator.is_, claims, self._claims))

    def repeated(self, supply: Supply, claims: Sequence[ResourceClaim], version: int) -> Pass:
        """The pass of the next attempt, with what still holds."""
        again = Pass(supply, claims, version)
        again.stopped = self.stopped
        if not self._is_for(claims):
            for each in again.stopped.values():
                each.search = None
        elif version == self._version:
            again._by_reach, again._by_row, again._paths = self._by_reach, self._by_row, self._paths
        return again

    def of(self, reach: Reach, row: int) -> Outcome | None:
        """The outcome of a search on these pools, if it is known."""
        known = self._by_reach.get(reach)
        if known is None:
            known = self._by_row.get(row)
        if known is None:
            known = next((outcome for path, outcome in self._paths if reach.follows(path, self._supply)), None)
        return known

    def add(self, reach: Reach, row: int, outcome: Outcome, path: Path | None) -> None:
        """Add the outcome of a search on these pools."""
        if reach.uniform:
            self._by_reach[reach] = outcome
        else:
            self._by_row[row] = outcome
        if path is not None and reach.uniform and reach.repeatable:
            self._paths.append((path, outcome))

    def fail(self, row: int, error: Status) -> None:
        """Add an error, which concerns one node only."""
        self._by_row[row] = error


class StoppedPasses:
    """The passes of attempts that gave way, by the claims. Only the latest are kept."""

    def __init__(self) -> None:
        self._by_claims: LruDict[tuple[str, ...], Pass] = LruDict(_STOPPED)

    def begin(self, supply: Supply, claims: Sequence[ResourceClaim], version: int) -> Pass:
        """Begin or continue the pass for some claims."""
        earlier = self._by_claims.pop(_key(claims), None)
        return Pass(supply, claims, version) if earlier is None else earlier.repeated(supply, claims, version)

    def keep(self, stopped: Pass, claims: Sequence[ResourceClaim]) -> None:
        """Keep a pass that has stopped."""
        self._by_claims[_key(claims)] = stopped


def _key(claims: Sequence[ResourceClaim]) -> tuple[str, ...]:
    return tuple(map(uid_of, claims))
