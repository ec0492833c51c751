"""The objects of one kind as a reflector last saw them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Entry(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object with what tells it from others of its name (`uid`) and from other versions of itself (`version`)."""

    object: T
    uid: str
    version: str


class Store(Mapping[str, T]):
    """Objects by `namespace/name`, or by name where the kind has no namespace. Only its reflector changes it."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry[T]] = {}

    def __getitem__(self, key: str) -> T:
        return self.entries[key].object

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
