"""What an expression can read of a device. Devices that are the same in that have the same result, at the same cost.

It is found in the syntax tree, before any device is seen. So a selector over 10,000 devices is evaluated a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bayplan.core.devices.cel.macros import macro_of
from bayplan.core.devices.cel.parsing import CONSTANT, Tree, arguments_of

Path = tuple[str, ...]
"""A part of `device`: a field of it, followed by a domain and a name where they are known. () is the whole device."""

_LONGEST = 3
_FIELDS = frozenset({"member_dot", "member_optional_dot"})
_INDEXES = frozenset({"member_index", "member_optional_index"})


Names = Mapping[str, Path | None]
"""What variables stand for: a part of `device`, or None for another value."""
DEVICE: Names = {"device": ()}


def reads(tree: Tree, names: Names = DEVICE) -> tuple[Path, ...] | None:
    """The parts of `device` that an expression can read; None if it reads a variable that isn't a part of it."""
    found = set(_reads(tree, names))
    return None if None in found else tuple(sorted(each for each in found if each is not None))


def _reads(tree: Tree, names: Names) -> Iterator[Path | None]:
    """The variables of an expression, without those that it binds itself."""
    path = part_of_device(tree, names)
    if path is not None or (tree.data == "ident" and str(tree.children[-1]) in names):
        yield path
        return
    if tree.data == "member_call":
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        macro = macro_of(receiver, name, arguments)
        if macro is not None:
            inner = {key: part for key, part in names.items() if key not in _bound(arguments, macro.variables)}
            outside, *inside = [receiver, *arguments[macro.variables :]] if name != "bind" else arguments[1:]
            alias = part_of_device(outside, names) if name == "bind" else None
            if alias is None:
                yield from _reads(outside, names)
            else:
                inner |= dict.fromkeys(_bound(arguments, 1), alias)
            for each in inside:
                yield from _reads(each, inner)
            return
    for child in tree.children:
        if isinstance(child, Tree) and tree.data != CONSTANT:
            yield from _reads(child, names)


def _bound(arguments: Sequence[Tree], count: int) -> set[str]:
    return {str(argument.children[-1]) for argument in arguments[:count]}


def part_of_device(tree: Tree, names: Names) -> Path | None:
    """The part of the device that an expression is; None for other expressions."""
    if tree.data == "ident":
        return names.get(str(tree.children[-1]))
    if tree.data in _FIELDS:
        key = str(tree.children[1])
    elif tree.data in _INDEXES and tree.children[1].data == CONSTANT and isinstance(tree.children[1].children[0], str):
        key = tree.children[1].children[0]
    else:
        return None
    whole = part_of_device(tree.children[0], names)
    return whole if whole is None or len(whole) == _LONGEST else (*whole, key)
