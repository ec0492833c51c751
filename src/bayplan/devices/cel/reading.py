"""What an expression can read of a device. Devices that are the same in that have the same result, at the same cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.devices.cel.macros import macro_of
from bayplan.devices.cel.parsing import CONSTANT, Tree, arguments_of

Path = tuple[str, ...]
"""A part of `device`: a field of it, followed by a domain and a name where they are known. () is the whole device."""

_LONGEST = 3
_FIELDS = frozenset({"member_dot", "member_optional_dot"})
_INDEXES = frozenset({"member_index", "member_optional_index"})


def reads(tree: Tree) -> tuple[Path, ...]:
    """The parts of `device` that an expression can read."""
    return tuple(sorted(set(_reads(tree, {"device": ()}))))


def _reads(tree: Tree, scope: Mapping[str, Path | None]) -> Iterator[Path]:
    """`scope`: which parts of the device variables stand for."""
    path = _path(tree, scope)
    if path is not None:
        yield path
        return
    if tree.data == "member_call":
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        macro = macro_of(receiver, name, arguments)
        if macro is not None:
            inner = dict(scope)
            for each in arguments[: macro.variables]:
                inner[str(each.children[-1])] = _path(arguments[1], scope) if name == "bind" else None
            if name != "bind":
                yield from _reads(receiver, scope)
            elif _path(arguments[1], scope) is None:
                yield from _reads(arguments[1], scope)
            for each in arguments[2 if name == "bind" else macro.variables :]:
                yield from _reads(each, inner)
            return
    for child in tree.children:
        if isinstance(child, Tree) and tree.data != CONSTANT:
            yield from _reads(child, scope)


def _path(tree: Tree, scope: Mapping[str, Path | None]) -> Path | None:
    """The part of the device that an expression is; None for other expressions."""
    if tree.data == "ident":
        return scope.get(str(tree.children[-1]))
    if tree.data in _FIELDS:
        key = str(tree.children[1])
    elif tree.data in _INDEXES and tree.children[1].data == CONSTANT and isinstance(tree.children[1].children[0], str):
        key = tree.children[1].children[0]
    else:
        return None
    whole = _path(tree.children[0], scope)
    return whole if whole is None or len(whole) == _LONGEST else (*whole, key)
