"""The host ports that the pods on nodes use, as columns, and the rule of what conflicts.

A port takes memory only while a pod uses it. For one protocol and port, an address conflicts with itself,
and 0.0.0.0 with all. `bayplan.core.plugins.node_ports` asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.pod_info import ANY_IP, HostPort
from bayplan.core.cluster.tally import Tally, Usage


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

    def conflicts(self, wanted: HostPort, size: int) -> Int64 | None:
        """Return how many ports of each row conflict with `wanted`: int64, shape (size,); None for no row."""
        used = self.get((wanted.protocol, wanted.port), {})
        conflicts: Int64 | None = None
        for ip in _conflicting(wanted.ip, used.keys()):
            numbers = used[ip].dense(size)
            conflicts = numbers if conflicts is None else conflicts + numbers
        return conflicts

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for by_ip in self.values():
            for tally in by_ip.values():
                tally.grow(capacity)


def conflicts_with(wanted: HostPort, ports: Iterable[HostPort]) -> int:
    """Return how many host ports conflict with `wanted` if they are used on the same node."""
    addresses = [port.ip for port in ports if (port.protocol, port.port) == (wanted.protocol, wanted.port)]
    conflicting = _conflicting(wanted.ip, set(addresses)) if addresses else ()
    return sum(ip in conflicting for ip in addresses)


def _conflicting(ip: str, used: AbstractSet[str]) -> Collection[str]:
    """Return the addresses, of those on which a port is used, that conflict with the same port on `ip`."""
    return used if ip == ANY_IP else {ip, ANY_IP} & used
