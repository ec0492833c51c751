"""WorldContents: the documents of a world, read into objects, and what could not be read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any

from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import decode
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.core.executor.handlers import NodeHandler, Receiver

Documents = Mapping[Kind, Mapping[str, bytes]]
"""Kind -> `namespace/name` (or `name`) -> the object's JSON."""


class WorldContents:
    """What a world was moved to, as documents.

    Attributes:
        documents: all of them, also those that no plugin reads.
        problems: objects that could not be read, one line each. left_out: those that can't be read now, and why.
    """

    def __init__(self) -> None:
        self.documents: Documents = MappingProxyType({})
        self.problems: list[str] = []
        self.left_out: dict[tuple[Kind, str], str] = {}
        self._read_kinds: AbstractSet[Kind] = frozenset()
        """The kinds of `documents` that were read. Plugins that are built later may watch more."""
        self._pods = PodDecoder()

    def replace(self, documents: Documents, watched: AbstractSet[Kind]) -> Iterator[tuple[Kind, str, Any]]:
        """Yield the objects of the watched kinds that other documents add or change, and None for those without.

        Objects with the same bytes as before are not read again.
        """
        read = {NODE, POD, *watched}
        for kind in sorted(read & {*documents, *self.documents}, key=_pods_last):
            old = self.documents.get(kind, _NONE) if kind in self._read_kinds else _NONE
            new = documents.get(kind, _NONE)
            if old is new:
                continue
            for key in old.keys() - new.keys():
                self.left_out.pop((kind, key), None)
                yield kind, key, None
            for key in sorted(new):
                if old.get(key) is not new[key]:
                    self.left_out.pop((kind, key), None)
                    yield kind, key, self._read(kind, key, new[key])
        self.documents, self._read_kinds = documents, read

    def _read(self, kind: Kind, key: str, raw: bytes) -> Any:
        try:
            obj = self.decode(kind, raw)
        except ValueError as error:
            self.leave_out(kind, key, str(error).removeprefix(f"{kind.kind} {key}: "))
            return None
        if kind is not POD and kind.model and obj.metadata is not None and not obj.metadata.uid:
            obj.metadata.uid = key  # written by hand: claims are told apart by their uids
        return obj

    def decode(self, kind: Kind, raw: bytes) -> Any:
        """Read an object. Raises ValueError."""
        return self._pods.decode(raw) if kind is POD else decode(kind.type, raw)

    def leave_out(self, kind: Kind, key: str, reason: str) -> None:
        """Note that an object can't be read."""
        self.left_out[kind, key] = reason
        self.problems.append(f"{kind.kind} {key} is left out: {reason}")


class NodesOfWorld(NodeHandler):
    """Handles nodes. `leave_out` is called with the kind, the name and the reason of one with an invalid value."""

    def __init__(self, receiver: Receiver, leave_out: Callable[[Kind, str, str], None]) -> None:
        super().__init__(receiver)
        self._leave_out = leave_out

    def invalid(self, key: str, error: ValueError) -> None:
        """Leave the node out."""
        self._leave_out(NODE, key, str(error))


_NONE: Mapping[str, bytes] = MappingProxyType({})


def _pods_last(kind: Kind) -> tuple[int, str]:
    """The order in which kinds are read: nodes first, and last the pods, which depend on all others."""
    return (0 if kind is NODE else 2 if kind is POD else 1), kind.resource
