"""Constant folding, which doesn't count towards the cost limit. Mirrors cel-go's planner.

Lists, maps and conversions of constants become values. If one of them fails, the expression isn't a valid selector.
"""

from __future__ import annotations

from typing import Any

from bayplan.core.devices.cel import literals
from bayplan.core.devices.cel.compiling import compile_program
from bayplan.core.devices.cel.declarations import TYPES
from bayplan.core.devices.cel.library.regexes import compiled
from bayplan.core.devices.cel.macros import macro_of
from bayplan.core.devices.cel.parsing import CONSTANT, Tree, arguments_of, identifier, qualified_name
from bayplan.core.devices.cel.values import PRIMITIVE, CelError, Failure, TypeValue, type_name

_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_INDEXES = frozenset({"member_index", "member_optional_index"})


class PlanError(ValueError):
    """A well-typed expression that fails for every device."""


def plan(tree: Tree, bound: frozenset[str] = frozenset()) -> Tree:
    """The expression with its constants folded. `bound` are the names of variables in scope. Raises PlanError."""
    if tree.data == "literal":
        return _constant(literals.value_of(tree.children[0]))
    name = qualified_name(tree)
    if name in TYPES and name not in bound:
        return _constant(TypeValue(str(name)))
    bound |= _variables(tree)
    parts = [plan(child, bound) if isinstance(child, Tree) else child for child in tree.children]
    planned = Tree(tree.data, parts)
    if _is_constant(planned):
        value = compile_program(planned).run()
        if isinstance(value, Failure):
            raise PlanError(value.message)
        return _constant(value)
    if tree.data in _INDEXES and planned.children[1].data == CONSTANT:
        key = planned.children[1].children[0]
        if type(key) not in PRIMITIVE:
            raise PlanError(f"invalid qualifier type: {type_name(key)}")
    if tree.data == "member_call" and tree.children[1] in {"find", "findAll"}:
        _check_pattern(arguments_of(planned))
    return planned


def _variables(tree: Tree) -> set[str]:
    """The variable names that a macro binds."""
    if tree.data != "member_call":
        return set()
    arguments = arguments_of(tree)
    macro = macro_of(tree.children[0], str(tree.children[1]), arguments)
    return {str(identifier(argument)) for argument in arguments[: macro.variables]} if macro else set()


def _constant(value: Any) -> Tree:
    return Tree(CONSTANT, [value])


def _is_constant(tree: Tree) -> bool:
    match tree.data:
        case "list" | "map":
            return all(_has_only_constants(child) for child in tree.children)
        case "call":
            arguments = arguments_of(tree)
            return tree.children[0] in _CONVERSIONS and len(arguments) == 1 and arguments[0].data == CONSTANT
    return False


def _has_only_constants(tree: Tree) -> bool:
    return tree.data == CONSTANT or (tree.data == "entry" and all(map(_has_only_constants, tree.children)))


def _check_pattern(arguments: list[Tree]) -> None:
    if arguments and arguments[0].data == CONSTANT and isinstance(arguments[0].children[0], str):
        try:
            compiled(arguments[0].children[0])
        except CelError as error:
            raise PlanError(str(error)) from None
