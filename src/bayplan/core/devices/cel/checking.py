"""The type checker. It reports the first error of an expression.

Mirrors cel-go's checker/checker.go and its validators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from bayplan.core.devices.cel import celtypes as t
from bayplan.core.devices.cel import literals
from bayplan.core.devices.cel.declarations import (
    DEVICE,
    DEVICE_FIELDS,
    DEVICE_FIELDS_WITH_LISTS,
    FOR_LISTS,
    FUNCTIONS,
    TYPES,
)
from bayplan.core.devices.cel.library.formatting import check_format
from bayplan.core.devices.cel.library.regexes import compiled
from bayplan.core.devices.cel.macros import Macro, macro_of
from bayplan.core.devices.cel.parsing import Tree, arguments_of, identifier, qualified_name
from bayplan.core.devices.cel.values import CelError, type_name

_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    }
)
_NAMES: Mapping[str, t.Type] = {"device": DEVICE, **TYPES}
_ITERABLE = "(must be list, map, or dynamic)"


class InvalidExpression(ValueError):
    """A type error. The message describes it."""


def check(tree: Tree, *, lists: bool = False, stored: bool = True) -> t.Type:
    """The type of an expression. Raises InvalidExpression.

    `lists`: attributes may have lists of values. `stored`: so that `includes` is there, even without them.
    """
    checker = _Checker(lists=lists, hidden="" if lists or stored else FOR_LISTS)
    found = checker.type_of(tree)
    checker.check_literals()
    return checker.unifier.substitute(found, t.DYN)


class _Checker:
    """Infers the types of an expression's parts, each in its scope."""

    def __init__(self, *, lists: bool, hidden: str) -> None:
        self.unifier = t.Unifier()
        self._device = DEVICE_FIELDS_WITH_LISTS if lists else DEVICE_FIELDS
        self._hidden = hidden
        self._scope = _NAMES
        self._same_type: list[tuple[t.Type, t.Type]] = []
        self._formatted = False

    def type_of(self, tree: Tree) -> t.Type:
        """The type of a part. Raises InvalidExpression."""
        found: t.Type = getattr(self, f"_{tree.data}")(tree)
        return self.unifier.substitute(found)

    def check_literals(self) -> None:
        """Check that the elements of each list and map literal have the same type. Raises InvalidExpression."""
        for first, other in self._same_type:
            wanted, found = (self.unifier.substitute(each, t.DYN) for each in (first, other))
            if wanted != found:
                raise InvalidExpression(f"expected type '{wanted}' but found '{found}'")

    def _called(self, name: str, given: list[t.Type]) -> t.Type:
        shown = name.removeprefix(".")
        if name == self._hidden or (shown not in FUNCTIONS and f".{shown}" not in FUNCTIONS):
            raise _undeclared(shown)
        result: t.Type | None = None
        for overload in FUNCTIONS.get(name, ()):
            *wanted, gives = self.unifier.instance([*overload.arguments, overload.result])
            if self.unifier.assignable(given, wanted):
                gives = self.unifier.substitute(gives)
                result = gives if result in {None, gives} else t.DYN
        if result is None:
            types = [str(self.unifier.substitute(each, t.DYN)) for each in given]
            receiver = f"{types.pop(0)}." if name.startswith(".") else ""
            applied = f"{receiver}({', '.join(types)})"
            raise InvalidExpression(f"found no matching overload for '{shown}' applied to '{applied}'")
        return result

    def _conditional(self, tree: Tree) -> t.Type:
        return self._called("_?_:_", [self.type_of(child) for child in tree.children])

    def _or(self, tree: Tree) -> t.Type:
        for child in tree.children:
            self._expect(t.BOOL, self.type_of(child))
        return t.BOOL

    _and = _or

    def _operator(self, tree: Tree) -> t.Type:
        name, *operands = tree.children
        return self._called(name, [self.type_of(operand) for operand in operands])

    def _literal(self, tree: Tree) -> t.Type:
        try:
            return t.Type(type_name(literals.value_of(tree.children[0])))
        except ValueError as error:
            raise InvalidExpression(str(error)) from None

    def _list(self, tree: Tree) -> t.Type:
        return t.list_of(self._joined(tree.children))

    def _map(self, tree: Tree) -> t.Type:
        keys, values = ([entry.children[place] for entry in tree.children] for place in (0, 1))
        return t.map_of(self._joined(keys), self._joined(values))

    def _joined(self, elements: list[Any]) -> t.Type:
        """The common type of elements. `check_literals` checks that they are the same when all types are known."""
        joined: t.Type | None = None
        first: t.Type | None = None
        for element in elements:
            found = self.type_of(element)
            if first is not None and not self._formatted:
                self._same_type.append((first, found))
            first = first or found
            if joined is None:
                joined = found
            else:
                together = self.unifier.assignable([found], [joined])
                joined = t.more_general(joined, found) if together else t.DYN
        return joined or self.unifier.free()

    def _optional_element(self, tree: Tree) -> t.Type:
        found = self.type_of(tree.children[0])
        if found.name == "optional_type":
            return found.parameters[0]
        if not found.dynamic:
            raise InvalidExpression(f"expected type '{t.optional_of(found)}' but found '{found}'")
        return found

    def _ident(self, tree: Tree) -> t.Type:
        name = str(tree.children[0])
        if name in _RESERVED:
            raise InvalidExpression(f"reserved identifier: {name}")
        if name not in self._scope:
            raise _undeclared(name)
        return self._scope[name]

    def _call(self, tree: Tree) -> t.Type:
        name, arguments = str(tree.children[0]), arguments_of(tree)
        if name in _RESERVED:
            raise InvalidExpression(f"reserved identifier: {name}")
        if name == "has" and len(arguments) == 1:
            if arguments[0].data != "member_dot":
                raise InvalidExpression("invalid argument to has() macro")
            self.type_of(arguments[0])
            return t.BOOL
        found = self._called(name, [self.type_of(argument) for argument in arguments])
        if name == "matches" and len(arguments) == 2:
            _check_pattern(arguments[1])
        return found

    def _member_object(self, tree: Tree) -> t.Type:
        name = qualified_name(tree.children[0])
        if name is None:
            raise InvalidExpression("syntax error: unexpected '{'")
        if name not in self._scope:
            raise _undeclared(name)
        raise InvalidExpression(f"'{name}' is not a message type")

    def _member_dot(self, tree: Tree) -> t.Type:
        name = qualified_name(tree)
        return self._scope[name] if name is not None and name in self._scope else self._field(tree)

    def _member_optional_dot(self, tree: Tree) -> t.Type:
        found = self._field(tree)
        return found if found.name == "optional_type" else t.optional_of(found)

    def _field(self, tree: Tree) -> t.Type:
        whole, field = self.type_of(tree.children[0]), str(tree.children[1])
        optional = whole.name == "optional_type"
        target = whole.parameters[0] if optional else whole
        if target.name == "map":
            found = target.parameters[1]
        elif target == DEVICE:
            if field not in self._device:
                raise InvalidExpression(f"undefined field '{field}'")
            found = self._device[field]
        elif target.dynamic or target.free:
            found = t.DYN
        elif target.name.startswith("kubernetes."):
            raise InvalidExpression(f"undefined field '{field}'")
        else:
            raise InvalidExpression(f"type '{target}' does not support field selection")
        return t.optional_of(found) if optional else found

    def _member_index(self, tree: Tree) -> t.Type:
        return self._called("_[_]", [self.type_of(child) for child in tree.children])

    def _member_optional_index(self, tree: Tree) -> t.Type:
        return self._called("_[?_]", [self.type_of(child) for child in tree.children])

    def _member_call(self, tree: Tree) -> t.Type:
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        macro = macro_of(receiver, name, arguments)
        if macro is not None:
            return self._macro(receiver, name, macro, arguments)
        prefix = qualified_name(receiver)
        if f"{prefix}.{name}" in FUNCTIONS:
            return self._called(f"{prefix}.{name}", [self.type_of(argument) for argument in arguments])
        given = [self.type_of(receiver), *(self._argument(receiver, name, argument) for argument in arguments)]
        found = self._called(f".{name}", given)
        if name == "matches":
            _check_pattern(arguments[0])
        return found

    def _argument(self, receiver: Tree, name: str, argument: Tree) -> t.Type:
        """The type of a method's argument. The list literal of `format` can have elements of different types."""
        if name != "format" or argument.data != "list":
            return self.type_of(argument)
        outer, self._formatted = self._formatted, True
        types = [[self._type_name(each) for each in _with_elements(element)] for element in argument.children]
        self._formatted = outer
        if receiver.data == "literal" and isinstance(text := literals.value_of(receiver.children[0]), str):
            try:
                check_format(text, types)
            except CelError as error:
                raise InvalidExpression(str(error)) from None
        return t.list_of(t.DYN)

    def _type_name(self, tree: Tree) -> str:
        return self.unifier.substitute(self.type_of(tree), t.DYN).name

    def _macro(self, receiver: Tree, name: str, macro: Macro, arguments: list[Tree]) -> t.Type:
        if name == "bind":
            bound = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
            return self._with({bound: self.type_of(arguments[1])}, arguments[2])
        over = self.type_of(receiver)
        if name in {"optMap", "optFlatMap"}:
            variable = _variable(arguments[0], f"{name}() variable name must be a simple identifier")
            mapped = self._with({variable: self._called(".value", [over])}, arguments[1])
            if name == "optMap":
                return t.optional_of(mapped)
            return self._called("_?_:_", [t.BOOL, mapped, t.optional_of(self.unifier.free())])
        if name == "sortBy" and receiver.data == "literal":
            wanted = "a list, identifier, comprehension, call or select expression"
            raise InvalidExpression(f"sortBy can only be applied to {wanted}")
        variables = self._loop_variables(over, macro, arguments)
        *conditions, body = [self._with(variables, argument) for argument in arguments[macro.variables :]]
        for condition in conditions if not macro.predicate else [body]:
            self._expect(t.BOOL, condition)
        return self._gathered(name, over, list(variables.values()), body)

    def _gathered(self, name: str, over: t.Type, variables: list[t.Type], body: t.Type) -> t.Type:
        match name:
            case "map" | "transformList":
                return t.list_of(body)
            case "filter":
                return t.list_of(variables[0])
            case "transformMap":
                return t.map_of(variables[0], body)
            case "transformMapEntry":
                return self._called("cel.@mapInsert", [t.map_of(self.unifier.free(), self.unifier.free()), body])
            case "sortBy":
                return self._called(".@sortByAssociatedKeys", [over, t.list_of(body)])
        return t.BOOL

    def _loop_variables(self, over: t.Type, macro: Macro, arguments: list[Tree]) -> dict[str, t.Type]:
        problem = "argument must be a simple name" if macro.variables == 2 else "argument is not an identifier"
        names = [_variable(argument, problem) for argument in arguments[: macro.variables]]
        if len(set(names)) < len(names):
            raise InvalidExpression(f"duplicate variable name: {names[0]}")
        if "__result__" in names:
            raise InvalidExpression("iteration variable overwrites accumulator variable")
        match over.name:
            case "list":
                types = [t.INT, over.parameters[0]][-macro.variables :]
            case "map":
                types = list(over.parameters[: macro.variables])
            case _ if over.name == "dyn" or over.free:
                types = [t.DYN, t.DYN]
            case _:
                raise InvalidExpression(f"expression of type '{over}' cannot be range of a comprehension {_ITERABLE}")
        return dict(zip(names, types, strict=False))

    def _with(self, variables: Mapping[str, t.Type], tree: Tree) -> t.Type:
        outer, self._scope = self._scope, {**self._scope, **variables}
        found = self.type_of(tree)
        self._scope = outer
        return found

    def _expect(self, wanted: t.Type, found: t.Type) -> None:
        if not self.unifier.assignable([found], [wanted]):
            raise InvalidExpression(f"expected type '{wanted}' but found '{found}'")


def _undeclared(name: str) -> InvalidExpression:
    return InvalidExpression(f"undeclared reference to '{name}' (in container '')")


def _variable(tree: Tree, problem: str) -> str:
    name = identifier(tree)
    if name is None:
        raise InvalidExpression(problem)
    return name


def _with_elements(tree: Tree) -> Iterator[Tree]:
    """Yield a literal and all elements of it, those of elements included; any other expression alone."""
    yield tree
    if tree.data in {"list", "map"}:
        parts = tree.children if tree.data == "list" else chain.from_iterable(each.children for each in tree.children)
        for part in parts:
            yield from _with_elements(part)


def _check_pattern(tree: Tree) -> None:
    text = literals.value_of(tree.children[0]) if tree.data == "literal" else None
    if isinstance(text, str):
        try:
            compiled(text)
        except CelError:
            raise InvalidExpression("invalid matches argument") from None
