"""A reflector's copy of the objects of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Entry(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object with its uid, which tells it from earlier objects of the same name, and its version."""

    object: T
    uid: str
    version: str


class Store(Mapping[str, T]):
    """Objects by `namespace/name`, or by name if the kind isn't namespaced. Only the reflector changes it."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry[T]] = {}

    def __getitem__(self, key: str) -> T:
        return self.entries[key].object

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
