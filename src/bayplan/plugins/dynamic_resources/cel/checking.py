"""What is wrong with an expression before any device is looked at: names, functions and types that cannot be right.

cel-python has no type checker. This one knows the types of `device`, of literals and of functions; where it cannot
know, as with attributes, anything goes and evaluation decides. Mirrors what CompileCELExpression refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lark

from bayplan.plugins.dynamic_resources.cel.evaluation import identifier
from bayplan.plugins.dynamic_resources.cel.signatures import (
    DEVICE,
    DYN,
    KEYED,
    MACROS,
    METHODS,
    NAMESPACES,
    PLAIN,
    Signature,
)

_LITERALS = {
    "UINT_LIT": "uint",
    "FLOAT_LIT": "double",
    "INT_LIT": "int",
    "MLSTRING_LIT": "string",
    "STRING_LIT": "string",
    "BYTES_LIT": "bytes",
    "BOOL_LIT": "bool",
    "NULL_LIT": "null",
}
_NUMBERS = frozenset({"int", "uint", "double"})
_ORDERED = _NUMBERS | {"bool", "string", "bytes", "timestamp", "duration"}
_NULLABLE = frozenset({"quantity", "semver", "timestamp", "duration"})
_TYPES = frozenset(
    {"bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint"}
)


class _Problem(Exception):
    """What is wrong."""


def check(tree: lark.Tree[Any]) -> str:
    """Why an expression is no selector; nothing for one that may be."""
    try:
        result = _Checker({"device": "device"}).type_of(tree)
    except _Problem as problem:
        return f"compilation failed: {problem}"
    return "" if result in {"bool", DYN} else f"must evaluate to bool or the unknown type, not {result}"


class _Checker:
    """Finds the type of expressions. `variables` are the types of names."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def type_of(self, tree: lark.Tree[Any]) -> str:
        """The type of an expression. Raises _Problem."""
        kind = str(tree.data)
        found: str = getattr(self, f"_{kind}", self._passed_on)(tree)
        return found

    def _passed_on(self, tree: lark.Tree[Any]) -> str:
        """A rule that stands for the one below it."""
        children = [child for child in tree.children if isinstance(child, lark.Tree)]
        types = [self.type_of(child) for child in children]
        return types[0] if len(types) == 1 else DYN

    def _expr(self, tree: lark.Tree[Any]) -> str:
        if len(tree.children) == 1:
            return self._passed_on(tree)
        condition, one, other = (self.type_of(child) for child in tree.children)
        _expect("_?_:_", "bool", condition)
        if DYN not in {one, other} and one != other:
            raise _Problem(f"found no matching overload for '_?_:_' applied to '({condition}, {one}, {other})'")
        return other if one == DYN else one

    def _conditionalor(self, tree: lark.Tree[Any]) -> str:
        return self._logical(tree, "_||_")

    def _conditionaland(self, tree: lark.Tree[Any]) -> str:
        return self._logical(tree, "_&&_")

    def _logical(self, tree: lark.Tree[Any], operation: str) -> str:
        if len(tree.children) == 1:
            return self._passed_on(tree)
        for child in tree.children:
            _expect(operation, "bool", self.type_of(child))
        return "bool"

    def _relation(self, tree: lark.Tree[Any]) -> str:
        if len(tree.children) == 1:
            return self._passed_on(tree)
        left, right = (self.type_of(child) for child in tree.children)
        operation = str(tree.children[0].data).removeprefix("relation_")
        if DYN in {left, right}:
            return "bool"
        if operation == "in":
            if right != "list" and right not in KEYED:
                raise _Problem(f"found no matching overload for '@in' applied to '({left}, {right})'")
        elif operation in {"eq", "ne"}:
            nullable = "null" in {left, right} and {left, right} & _NULLABLE
            if left != right and not nullable:
                raise _Problem(f"found no matching overload for '_{operation}_' applied to '({left}, {right})'")
        elif not ({left, right} <= _NUMBERS or (left == right and left in _ORDERED)):
            raise _Problem(f"found no matching overload for '_{operation}_' applied to '({left}, {right})'")
        return "bool"

    def _addition(self, tree: lark.Tree[Any]) -> str:
        return self._arithmetic(tree, _NUMBERS | {"string", "bytes", "list", "duration", "timestamp"})

    def _multiplication(self, tree: lark.Tree[Any]) -> str:
        return self._arithmetic(tree, _NUMBERS)

    def _arithmetic(self, tree: lark.Tree[Any], allowed: frozenset[str]) -> str:
        if len(tree.children) == 1:
            return self._passed_on(tree)
        left, right = (self.type_of(child) for child in tree.children)
        times = {"duration", "timestamp"}
        for side in (left, right):
            if side != DYN and side not in allowed:
                raise _Problem(
                    f"found no matching overload for '{tree.children[0].data}' applied to '({left}, {right})'"
                )
        if DYN not in {left, right} and left != right and not {left, right} <= times:
            raise _Problem(f"found no matching overload for '{tree.children[0].data}' applied to '({left}, {right})'")
        if times & {left, right}:
            return DYN
        return right if left == DYN else left

    def _unary(self, tree: lark.Tree[Any]) -> str:
        if len(tree.children) == 1:
            return self._passed_on(tree)
        operand = self.type_of(tree.children[1])
        if str(tree.children[0].data) == "unary_not":
            _expect("!_", "bool", operand)
            return "bool"
        if operand not in {"int", "double", DYN}:
            raise _Problem(f"found no matching overload for '-_' applied to '({operand})'")
        return operand

    def _literal(self, tree: lark.Tree[Any]) -> str:
        token = tree.children[0]
        assert isinstance(token, lark.Token)
        return _LITERALS[token.type]

    def _list_lit(self, tree: lark.Tree[Any]) -> str:
        self._passed_on(tree)
        return "list"

    def _map_lit(self, tree: lark.Tree[Any]) -> str:
        self._passed_on(tree)
        return "map"

    def _ident(self, tree: lark.Tree[Any]) -> str:
        name = str(tree.children[0])
        if name in self._variables:
            return self._variables[name]
        if name in _TYPES:
            return "type"
        raise _Problem(f"undeclared reference to '{name}' (in container '')")

    def _dot_ident(self, tree: lark.Tree[Any]) -> str:
        return self._ident(tree)

    def _ident_arg(self, tree: lark.Tree[Any]) -> str:
        name, arguments = str(tree.children[0]), _arguments(tree, 1)
        if name == "has":
            if len(arguments) != 1 or not _selects_a_field(arguments[0]):
                raise _Problem("invalid argument to has() macro")
            self.type_of(arguments[0])
            return "bool"
        types = [self.type_of(argument) for argument in arguments]
        return _called(name, PLAIN.get(name, ()), types)

    def _dot_ident_arg(self, tree: lark.Tree[Any]) -> str:
        return self._ident_arg(tree)

    def _member_object(self, tree: lark.Tree[Any]) -> str:
        raise _Problem("messages cannot be made here")

    def _member_dot(self, tree: lark.Tree[Any]) -> str:
        receiver, field = self.type_of(tree.children[0]), str(tree.children[1])
        if receiver == "device":
            if field not in DEVICE:
                raise _Problem(f"undefined field '{field}'")
            return DEVICE[field]
        if receiver in {"map", DYN}:
            return DYN
        if receiver in {"attributes", "capacities"}:
            return "map" if receiver == "attributes" else "quantities"
        if receiver == "quantities":
            return "quantity"
        raise _Problem(f"type '{receiver}' does not support field selection")

    def _member_index(self, tree: lark.Tree[Any]) -> str:
        receiver, index = self.type_of(tree.children[0]), self.type_of(tree.children[1])
        if receiver in {"attributes", "capacities", "quantities"}:
            _expect("_[_]", "string", index)
            return {"attributes": "map", "capacities": "quantities", "quantities": "quantity"}[receiver]
        if receiver not in {"map", "list", DYN}:
            raise _Problem(f"found no matching overload for '_[_]' applied to '({receiver}, {index})'")
        if receiver == "list" and index not in _NUMBERS | {DYN}:
            raise _Problem(f"found no matching overload for '_[_]' applied to '({receiver}, {index})'")
        return DYN

    def _member_dot_arg(self, tree: lark.Tree[Any]) -> str:
        receiver, name, arguments = tree.children[0], str(tree.children[1]), _arguments(tree, 2)
        namespace = identifier(receiver)
        if namespace == "cel" and name == "bind":
            if len(arguments) != 3:
                raise _Problem("cel.bind() takes a name, a value and an expression")
            return self._with({_name(arguments[0]): self.type_of(arguments[1])}).type_of(arguments[2])
        if namespace in NAMESPACES and namespace not in self._variables:
            types = [self.type_of(argument) for argument in arguments]
            return _called(f"{namespace}.{name}", NAMESPACES[namespace].get(name, ()), types)
        target = self.type_of(receiver)
        if name in MACROS and len(arguments) in MACROS[name]:
            return self._macro(target, name, arguments)
        types = [target, *(self.type_of(argument) for argument in arguments)]
        return _called(name, METHODS.get(name, ()), types)

    def _macro(self, target: str, name: str, arguments: list[lark.Tree[Any]]) -> str:
        if target not in KEYED | {"list", DYN}:
            raise _Problem(f"expression of type '{target}' cannot be range of a comprehension")
        two = len(arguments) == 3 and name != "map"
        bound = {_name(argument): DYN for argument in arguments[: 2 if two else 1]}
        bodies = [self._with(bound).type_of(body) for body in arguments[2 if two else 1 :]]
        if name != "map":
            _expect(name, "bool", bodies[0])
        return "list" if name in {"map", "filter"} else "bool"

    def _with(self, variables: Mapping[str, str]) -> _Checker:
        return _Checker({**self._variables, **variables})


def _called(name: str, signatures: tuple[Signature, ...], types: list[str]) -> str:
    """The type of what a function gives for arguments of these types."""
    if not signatures:
        raise _Problem(f"undeclared reference to '{name}' (in container '')")
    results = {signature.result for signature in signatures if signature.takes(types)}
    if not results:
        raise _Problem(f"found no matching overload for '{name}' applied to '({', '.join(types)})'")
    return results.pop() if len(results) == 1 else DYN


def _expect(operation: str, wanted: str, given: str) -> None:
    if given not in {wanted, DYN}:
        raise _Problem(f"found no matching overload for '{operation}': expected type '{wanted}' but found '{given}'")


def _arguments(tree: lark.Tree[Any], place: int) -> list[lark.Tree[Any]]:
    listed = tree.children[place] if len(tree.children) > place else None
    return list(listed.children) if listed is not None else []


def _name(tree: lark.Tree[Any]) -> str:
    name = identifier(tree)
    if name is None:
        raise _Problem("argument is not an identifier")
    return name


def _selects_a_field(tree: lark.Tree[Any]) -> bool:
    while len(tree.children) == 1 and isinstance(tree.children[0], lark.Tree):
        tree = tree.children[0]
    return str(tree.data) == "member_dot"
