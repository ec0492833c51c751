"""The host ports that the pods on nodes use, as columns."""

from __future__ import annotations

from bayplan.cluster.columns import Bool
from bayplan.cluster.pod_info import ANY_IP, HostPort
from bayplan.cluster.tally import Tally, Usage


class HostPorts(dict[tuple[str, int], dict[str, Tally]]):
    """The ports that at least one pod uses: by (protocol, port), then by host IP, the number of pods of each row."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity
        self._usage = Usage()

    def account(self, row: int, used: HostPort, by: int) -> None:
        """Count a port of a pod on a row; `by` is 1 for a pod that is added, and -1 for one that is removed."""
        by_ip = self.setdefault((used.protocol, used.port), {})
        tally = by_ip.setdefault(used.ip, Tally(self._capacity, self._usage))
        tally.add(row, by)
        if not tally:
            del by_ip[used.ip]
            if not by_ip:
                del self[used.protocol, used.port]

    def conflicts(self, wanted: HostPort, size: int) -> Bool | None:
        """Return the rows with a port that conflicts with `wanted`: bool, shape (size,); None for no row."""
        column = self.get((wanted.protocol, wanted.port))
        if column is None:
            return None
        addresses = column if wanted.ip == ANY_IP else {wanted.ip, ANY_IP} & column.keys()
        conflicts: Bool | None = None
        for ip in addresses:
            taken = column[ip].dense(size) > 0
            conflicts = taken if conflicts is None else conflicts | taken
        return conflicts

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for by_ip in self.values():
            for tally in by_ip.values():
                tally.grow(capacity)
