"""Compiles syntax trees to closures. Mirrors the costs of cel-go's interpreter/runtimecost.go.

A closure takes the frame of an evaluation and returns the value of its expression. Failures are values, because && and
|| absorb them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.devices.cel.calls import Code, caller, compile_call
from bayplan.devices.cel.costs import DEVICE, FIRST_VARIABLE, NEW_LIST, NEW_MAP, SPENT, Frame, Meter
from bayplan.devices.cel.declarations import FUNCTIONS
from bayplan.devices.cel.device import DeviceFacts
from bayplan.devices.cel.library.operators import clashes, contains
from bayplan.devices.cel.loops import compile_loop
from bayplan.devices.cel.macros import macro_of
from bayplan.devices.cel.memory import once, shared
from bayplan.devices.cel.numbers import OPERATORS, Operand, compile_operator
from bayplan.devices.cel.parsing import CONSTANT, Tree, arguments_of, qualified_name
from bayplan.devices.cel.reading import Names, part_of_device, reads
from bayplan.devices.cel.selecting import compile_element, compile_field, compile_presence
from bayplan.devices.cel.values import ABSENT, NO_OVERLOAD, PRIMITIVE, Failure, Optional, type_name

_SELECTING = frozenset({"ident", "member_dot", "member_index", "member_optional_dot", "member_optional_index"})
_FREE = _SELECTING | {"conditional"}
"""Operands from which selecting a field costs nothing extra."""
_QUANTIFIERS = frozenset({"all", "exists", "exists_one", "existsOne"})
_UNSET = object()
_CLASH = Failure("keys of a map are of different types")


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression. `size` is the number of its variables besides `device`."""

    code: Code
    size: int

    def run(self, device: Any = None, facts: DeviceFacts | None = None, meter: Meter | None = None) -> Any:
        """The value for a device, which can be a Failure. Raises CostExceeded, and what the checkpoint raises."""
        return (meter or Meter()).run(self.code, self.size, device, facts)


def compile_program(tree: Tree) -> Program:
    """Compile a checked expression whose literals are folded to constants."""
    compiler = _Compiler(tree)
    code = compiler.code(tree, {"device": _device})
    return Program(code, compiler.size)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that has its value in the frame."""

    place: int

    def __call__(self, frame: Frame) -> Any:
        """Its value."""
        return frame[self.place]


Scope = Mapping[str, Code]
"""How to read the variables. That costs nothing; their names in an expression cost one unit."""


class _Compiler:
    """Compiles one expression. Each of its variables has a place of its own in the frame."""

    def __init__(self, whole: Tree) -> None:
        self.size = 0
        self._reads = reads(whole)

    def code(self, tree: Tree, scope: Scope) -> Code:
        """The closure of an expression."""
        compiled: Code = getattr(self, f"_{tree.data}")(tree, scope)
        if len(scope) > 1 and part_of_device(tree, _names(scope)):
            return once(self._place(), compiled)  # a loop may ask for it often
        return compiled

    def _all(self, trees: Sequence[Tree], scope: Scope) -> list[Code]:
        return [self.code(tree, scope) for tree in trees]

    def _place(self) -> int:
        self.size += 1
        return FIRST_VARIABLE + self.size - 1

    def _constant(self, tree: Tree, _: Scope) -> Code:
        (value,) = tree.children
        return lambda _: value

    def _ident(self, tree: Tree, scope: Scope) -> Code:
        read = scope[tree.children[-1]]
        if isinstance(read, Variable):
            return _named(read.place)

        def name(frame: Frame) -> Any:
            frame[SPENT] += 1
            return read(frame)

        return name

    def _conditional(self, tree: Tree, scope: Scope) -> Code:
        condition = self.code(tree.children[0], scope)
        then, otherwise = (self._part(branch, scope) for branch in tree.children[1:])

        def chosen(frame: Frame) -> Any:
            holds = condition(frame)
            if holds is True:
                return then(frame)
            return otherwise(frame) if holds is False else _failed(holds)

        return chosen

    def _part(self, tree: Tree, scope: Scope) -> Code:
        """A part of another attribute: its variable costs nothing, only its qualifiers do."""
        code = self.code(tree, scope)
        if tree.data not in _SELECTING:
            return code

        def part(frame: Frame) -> Any:
            value = code(frame)
            frame[SPENT] -= 1
            return value

        return part

    def _or(self, tree: Tree, scope: Scope) -> Code:
        return self._decided(tree, scope, decisive=True)

    def _and(self, tree: Tree, scope: Scope) -> Code:
        return self._decided(tree, scope, decisive=False)

    def _decided(self, tree: Tree, scope: Scope, *, decisive: bool) -> Code:
        """&& or ||: one operand can decide, even if others fail."""
        operands = self._all(tree.children, scope)

        def decided(frame: Frame) -> Any:
            failure = None
            for operand in operands:
                value = operand(frame)
                if value is decisive:
                    return decisive
                if type(value) is not bool:
                    failure = failure or _failed(value)
            return not decisive if failure is None else failure

        return decided

    def _operator(self, tree: Tree, scope: Scope) -> Code:
        name, *operands = tree.children
        if name == "@in" and operands[1].data == CONSTANT and _are_primitive(values := operands[1].children[0]):
            return _among(self.code(operands[0], scope), values)
        if name in OPERATORS:
            left, right = (self._operand(each, scope) for each in operands)
            return compile_operator(name, left, right, caller(name))
        return compile_call(name, self._all(operands, scope))

    def _operand(self, tree: Tree, scope: Scope) -> Operand:
        if tree.data == CONSTANT:
            return Operand("constant", tree.children[0])
        if tree.data == "ident" and isinstance(read := scope[tree.children[-1]], Variable):
            return Operand("variable", read.place)
        return Operand("code", self.code(tree, scope))

    def _list(self, tree: Tree, scope: Scope) -> Code:
        parts = [(self.code(each, scope), each.data == "optional_element") for each in tree.children]

        def made(frame: Frame) -> Any:
            values: list[Any] = []
            for part, optional in parts:
                value = part(frame)
                if type(value) is Failure:
                    frame[SPENT] += NEW_LIST
                    return value
                if not optional:
                    values.append(value)
                elif value.present:
                    values.append(value.value)
            frame[SPENT] += NEW_LIST
            return values

        return made

    def _optional_element(self, tree: Tree, scope: Scope) -> Code:
        code = self.code(tree.children[0], scope)

        def element(frame: Frame) -> Any:
            value = code(frame)
            if type(value) is Optional or type(value) is Failure:
                return value
            return Failure("cannot initialize optional element from non-optional value")

        return element

    def _map(self, tree: Tree, scope: Scope) -> Code:
        entries = [
            (self.code(key, scope), self.code(value, scope), value.data == "optional_element")
            for key, value in (entry.children for entry in tree.children)
        ]

        def made(frame: Frame) -> Any:
            found = _map_of(entries, frame)
            frame[SPENT] += NEW_MAP
            return found

        return made

    def _selected_from(self, tree: Tree, scope: Scope) -> Code:
        """The operand of a selection."""
        whole = tree.children[0]
        code = self.code(whole, scope)
        if whole.data in _FREE:
            return code

        def operand(frame: Frame) -> Any:
            value = code(frame)
            frame[SPENT] += 1
            return value

        return operand

    def _member_dot(self, tree: Tree, scope: Scope) -> Code:
        optional = tree.data == "member_optional_dot"
        return compile_field(self._selected_from(tree, scope), str(tree.children[1]), optional=optional)

    _member_optional_dot = _member_dot

    def _member_index(self, tree: Tree, scope: Scope) -> Code:
        whole, key = self._selected_from(tree, scope), tree.children[1]
        optional = tree.data == "member_optional_index"
        if key.data == CONSTANT and type(name := key.children[0]) is str:
            return compile_field(whole, name, optional=optional)
        return compile_element(whole, self._part(key, scope), optional=optional)

    _member_optional_index = _member_index

    def _call(self, tree: Tree, scope: Scope) -> Code:
        name, arguments = str(tree.children[0]), arguments_of(tree)
        if name == "has" and len(arguments) == 1:
            return compile_presence(self._selected_from(arguments[0], scope), str(arguments[0].children[1]))
        return compile_call(name, self._all(arguments, scope))

    def _member_call(self, tree: Tree, scope: Scope) -> Code:
        """A call of a method, of a namespaced function, or of a macro."""
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        macro = macro_of(receiver, name, arguments)
        if macro is not None:
            names = [str(argument.children[-1]) for argument in arguments[: macro.variables]]
            expanded = self._macro(receiver, name, names, arguments[macro.variables :], scope)
            return self._shared(tree, scope, name, expanded)
        namespaced = f"{qualified_name(receiver)}.{name}"
        if namespaced in FUNCTIONS:
            return compile_call(namespaced, self._all(arguments, scope))
        codes = self._all([receiver, *arguments], scope)
        if name in {"or", "orValue"}:
            return _or_else(*codes, unwraps=name == "orValue")
        return compile_call(f".{name}", codes)

    def _macro(self, receiver: Tree, name: str, names: list[str], bodies: list[Tree], scope: Scope) -> Code:
        places = [self._place() for _ in names]
        if name == "bind":
            bound = _bound(places[0], self.code(bodies[0], scope))
            return _binding(places[0], self.code(bodies[1], {**scope, names[0]: bound}))
        values = self.code(receiver, scope)
        inner: dict[str, Code] = {**scope, **{each: Variable(place) for each, place in zip(names, places, strict=True)}}
        codes = self._all(bodies, inner)
        if name in {"optMap", "optFlatMap"}:
            return _mapped(values, places[0], codes[0], flat=name == "optFlatMap")
        return compile_loop(name, values, places, codes, constant=bodies[-1].data == CONSTANT)

    def _shared(self, tree: Tree, scope: Scope, name: str, loop: Code) -> Code:
        """A loop whose result other devices share, if it reads less of them than the whole expression does."""
        parts = reads(tree, _names(scope)) if name in _QUANTIFIERS else None
        return loop if parts is None or parts == self._reads else shared(parts, loop)


def _device(frame: Frame) -> Any:
    return frame[DEVICE]


def _names(scope: Scope) -> Names:
    return {name: () if read is _device else None for name, read in scope.items()}


def _named(place: int) -> Code:
    def name(frame: Frame) -> Any:
        frame[SPENT] += 1
        return frame[place]

    return name


def _failed(value: Any) -> Failure:
    return value if type(value) is Failure else NO_OVERLOAD


def _are_primitive(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) in PRIMITIVE for value in values)


def _among(wanted: Code, values: list[Any]) -> Code:
    """`in` a constant list, which costs nothing."""
    texts = frozenset(value for value in values if type(value) is str)

    def among(frame: Frame) -> Any:
        value = wanted(frame)
        if type(value) is str:
            return value in texts
        return value if type(value) is Failure else contains(values, value)

    return among if values else lambda _: False


def _map_of(entries: Sequence[tuple[Code, Code, bool]], frame: Frame) -> Any:
    found: dict[Any, Any] = {}
    for key_code, value_code, optional in entries:
        key, value = key_code(frame), value_code(frame)
        for part in (key, value):
            if type(part) is Failure:
                return part
        if isinstance(key, (list, dict, Optional)):
            return Failure(f"unsupported key type: {type_name(key)}")
        if clashes(found, key):
            return _CLASH
        if not optional or value.present:
            found[key] = value.value if optional else value
        else:
            found.pop(key, None)
    return found


def _or_else(target: Code, otherwise: Code, *, unwraps: bool) -> Code:
    """`or` and `orValue`: evaluates the alternative only if the target is absent. The call itself is free."""

    def or_else(frame: Frame) -> Any:
        value = target(frame)
        if type(value) is not Optional:
            return value
        if value.present:
            return value.value if unwraps else value
        return otherwise(frame)

    return or_else


def _mapped(target: Code, place: int, body: Code, *, flat: bool) -> Code:
    """`optMap` and `optFlatMap`. Upstream evaluates the target twice: for its presence, and for its value."""

    def mapped(frame: Frame) -> Any:
        before = frame[SPENT]
        value = target(frame)
        again = frame[SPENT] - before
        if type(value) is not Optional:
            return _failed(value)
        frame[SPENT] += 1
        if not value.present:
            frame[SPENT] += 1
            return ABSENT
        frame[SPENT] += again + (1 if flat else 2)
        frame[place] = value.value
        result = body(frame)
        return result if flat or type(result) is Failure else Optional(True, result)

    return mapped


def _binding(place: int, body: Code) -> Code:
    """`cel.bind`: the value is evaluated at its first use."""

    def bind(frame: Frame) -> Any:
        frame[place] = _UNSET
        return body(frame)

    return bind


def _bound(place: int, code: Code) -> Code:
    def read(frame: Frame) -> Any:
        value = frame[place]
        if value is _UNSET:
            value = frame[place] = code(frame)
        return value

    return read
