"""The nodes of a world: those with an invalid value are left out, with the reason."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.core.api.kinds import NODE, Kind
from bayplan.core.executor.handlers import NodeHandler, Receiver


class NodesOfWorld(NodeHandler):
    """Handles nodes. `leave_out` is called with the kind, the name and the reason of an invalid one."""

    def __init__(self, receiver: Receiver, leave_out: Callable[[Kind, str, str], None]) -> None:
        super().__init__(receiver)
        self._leave_out = leave_out

    def invalid(self, key: str, error: ValueError) -> None:
        """Leave the node out."""
        self._leave_out(NODE, key, str(error))
