"""Compiles checked syntax trees: most become functions whose source is written (`writing`), the rest closures.

Mirrors the costs of cel-go's interpreter/runtimecost.go.

A closure takes the frame of an evaluation and returns the value of its expression. Failures are values, because && and
|| absorb them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from bayplan.core.devices.cel.calls import write_call
from bayplan.core.devices.cel.costs import DEVICE, FIRST_VARIABLE, NEW_LIST, NEW_MAP, SPENT, Frame, Meter
from bayplan.core.devices.cel.declarations import FUNCTIONS
from bayplan.core.devices.cel.device import DeviceFacts
from bayplan.core.devices.cel.library.operators import clashes, contains
from bayplan.core.devices.cel.logic import failed, write_conditional, write_decided
from bayplan.core.devices.cel.loops import Loop, write_loop
from bayplan.core.devices.cel.macros import macro_of
from bayplan.core.devices.cel.memory import remembered, shared
from bayplan.core.devices.cel.numbers import OPERATORS, write_not, write_operator, write_text
from bayplan.core.devices.cel.parsing import CONSTANT, OPERATOR, Tree, arguments_of, qualified_name
from bayplan.core.devices.cel.reading import Names, part_of_device, reads
from bayplan.core.devices.cel.selecting import compile_presence, write_element, write_field
from bayplan.core.devices.cel.values import ABSENT, PRIMITIVE, Failure, Optional, type_name
from bayplan.core.devices.cel.writing import Code, FunctionSource, Value

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
    """A variable of a loop, which has its value in the frame. `value` is what is known of it."""

    place: int
    value: Value

    def __call__(self, frame: Frame) -> Any:
        """Its value."""
        return frame[self.place]


Scope = Mapping[str, Code]
"""How to read the variables. That costs nothing; their names in an expression cost one unit."""


class _Compiler:
    """Compiles one expression. Each of its variables has a place of its own in the frame.

    Most expressions are written (`writing`). Inside of loops their operands are written into the same
    function, elsewhere each is a function of its own.
    """

    def __init__(self, whole: Tree) -> None:
        self.size = 0
        self._reads = reads(whole)

    def code(self, tree: Tree, scope: Scope) -> Code:
        """The closure of an expression."""
        write = self._writer(tree)
        if write is None:
            compiled: Code = getattr(self, f"_{tree.data}")(tree, scope)
        else:
            unit = FunctionSource(fused=len(scope) > 1 or write == self._write_macro)
            compiled = unit.code(write(unit, tree, scope))
        if self._is_shared(tree, scope):
            compiled = shared(reads(tree, _names(scope)) or (), compiled)
        if len(scope) > 1 and part_of_device(tree, _names(scope)):
            return remembered(self._place(), compiled)  # a loop may ask for it often
        return compiled

    def _all(self, trees: Sequence[Tree], scope: Scope) -> list[Code]:
        return [self.code(tree, scope) for tree in trees]

    def _place(self) -> int:
        self.size += 1
        return FIRST_VARIABLE + self.size - 1

    def _is_shared(self, tree: Tree, scope: Scope) -> bool:
        """Whether other devices share the result of a loop: if it reads less of them than the whole expression does."""
        if tree.data != "member_call" or str(tree.children[1]) not in _QUANTIFIERS:
            return False
        parts = reads(tree, _names(scope))
        return parts is not None and parts != self._reads

    # Expressions that are written

    def _writer(self, tree: Tree) -> Callable[[FunctionSource, Tree, Scope], Value] | None:
        """The method that writes an expression; None if it is compiled to a closure."""
        name, children = tree.data, tree.children
        if name == "call":
            return None if children[0] == "has" and len(arguments_of(tree)) == 1 else self._write_call
        if name != "member_call":
            return self._writers.get(name)
        macro = macro_of(children[0], str(children[1]), arguments_of(tree))
        if macro is None:
            return None if children[1] in {"or", "orValue"} else self._write_call
        return None if children[1] in {"bind", "optMap", "optFlatMap"} else self._write_macro

    def _value(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        """Write an operand: into the function, or as the call of another one."""
        if tree.data == CONSTANT:
            (value,) = tree.children
            least, largest = (value, value) if type(value) is int else (0, 0)
            return Value(unit.given(value), type(value), least, largest)
        if tree.data == "ident":
            return self._write_name(unit, tree, scope)
        if len(scope) > 1 and part_of_device(tree, _names(scope)):
            return self._write_part_of_device(unit, tree, scope)
        write = self._writer(tree) if unit.fuses and not self._is_shared(tree, scope) else None
        if write is not None:
            return write(unit, tree, scope)
        unit.shown |= _places(tree, scope)
        return unit.assigned(f"{unit.given(self.code(tree, scope))}(frame)")

    def _write_name(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        unit.charge(1)
        read = scope[tree.children[-1]]
        if not isinstance(read, Variable):
            return unit.assigned(f"{unit.given(read)}(frame)")
        if read.place in unit.locals:
            return read.value._replace(text=f"v{read.place}")
        known = read.value
        return unit.assigned(f"frame[{read.place}]", known.kind, known.least, known.largest)

    def _write_part_of_device(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        """Write what doesn't change while the function runs. Each use costs as much as the evaluation."""
        value, before, cost = unit.new(), unit.new(), unit.new()
        unit.head(f"{before} = frame[{SPENT}]")
        unit.head(f"{value} = {unit.given(self.code(tree, scope))}(frame)")
        unit.head(f"{cost} = frame[{SPENT}] - {before}")
        unit.head(f"frame[{SPENT}] = {before}")
        unit.line(f"frame[{SPENT}] += {cost}")
        return Value(value, fixed=True)

    def _write_part(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        """Write a part of another attribute: its variable costs nothing, only its qualifiers do."""
        value = self._value(unit, tree, scope)
        if tree.data in _SELECTING:
            unit.charge(-1)
        return value

    def _write_conditional(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        condition, *branches = tree.children
        then, otherwise = (partial(self._write_part, unit, branch, scope) for branch in branches)
        return write_conditional(unit, self._value(unit, condition, scope), then, otherwise)

    def _write_decided(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        """Write a chain of && or ||, whose halves are chains, so that it isn't nested deeply."""
        half = len(tree.children) // 2
        left, right = (
            each[0] if len(each) == 1 else Tree(tree.data, each)
            for each in (tree.children[:half], tree.children[half:])
        )
        write_right = partial(self._value, unit, right, scope)
        return write_decided(unit, self._value(unit, left, scope), write_right, decisive=tree.data == "or")

    def _write_operator(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        name, *operands = tree.children
        if name == "@in" and operands[1].data == CONSTANT and _are_primitive(values := operands[1].children[0]):
            if not values:  # as upstream, the operand isn't evaluated
                return Value("False", bool)
            wanted = self._value(unit, operands[0], scope)
            return unit.assigned(f"{unit.given(_among(values))}({wanted.text})")
        given = [self._value(unit, operand, scope) for operand in operands]
        if name == "!_":
            return write_not(unit, *given)
        return write_operator(unit, name, *given) if name in OPERATORS else write_call(unit, name, given)

    def _selected_from(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        """Write the operand of a selection."""
        whole = tree.children[0]
        if whole.data not in _FREE:
            unit.charge(1)
        return self._value(unit, whole, scope)

    def _write_selection(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        whole, optional = self._selected_from(unit, tree, scope), "optional" in tree.data
        key = tree.children[1]
        if not isinstance(key, Tree):
            return write_field(unit, whole, str(key), optional=optional)
        if key.data == CONSTANT and type(name := key.children[0]) is str:
            return write_field(unit, whole, name, optional=optional)
        return write_element(unit, whole, partial(self._write_part, unit, key, scope), optional=optional)

    def _write_call(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        """Write a call of a function, of a method, or of a namespaced function."""
        arguments = arguments_of(tree)
        if tree.data == "call":
            name = str(tree.children[0])
        else:
            receiver, method = tree.children[0], str(tree.children[1])
            name = f"{qualified_name(receiver)}.{method}"
            if name not in FUNCTIONS:
                name, arguments = f".{method}", [receiver, *arguments]
        values = [self._value(unit, argument, scope) for argument in arguments]
        return write_text(unit, *values) if name == "string" and len(values) == 1 else write_call(unit, name, values)

    def _write_macro(self, unit: FunctionSource, tree: Tree, scope: Scope) -> Value:
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        macro = macro_of(receiver, name, arguments)
        assert macro is not None
        over = self._value(unit, receiver, scope)
        places = tuple(self._place() for _ in range(macro.variables))
        known = _known_of_elements(receiver, macro.variables)
        names = [str(argument.children[-1]) for argument in arguments[: macro.variables]]
        inner: dict[str, Code] = {**scope, **dict(zip(names, map(Variable, places, known), strict=True))}
        trees = arguments[macro.variables :]
        bodies = [partial(self._value, unit, each, inner) for each in trees]
        return write_loop(unit, Loop(name, over, places, bodies, constant=trees[-1].data == CONSTANT))

    @cached_property
    def _writers(self) -> Mapping[str, Callable[[FunctionSource, Tree, Scope], Value]]:
        return {
            "ident": self._write_name,
            "conditional": self._write_conditional,
            **dict.fromkeys(("or", "and"), self._write_decided),
            OPERATOR: self._write_operator,
            **dict.fromkeys(_SELECTING - {"ident"}, self._write_selection),
        }

    # Expressions that are closures

    def _constant(self, tree: Tree, _: Scope) -> Code:
        (value,) = tree.children
        return lambda _: value

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

    def _call(self, tree: Tree, scope: Scope) -> Code:
        """The macro `has`."""
        (selection,) = arguments_of(tree)
        unit = FunctionSource(fused=False)
        whole = unit.code(self._selected_from(unit, selection, scope))
        return compile_presence(whole, str(selection.children[1]))

    def _member_call(self, tree: Tree, scope: Scope) -> Code:
        """The macros and functions whose arguments are evaluated when they are needed."""
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        if name in {"or", "orValue"}:
            return _or_else(*self._all([receiver, *arguments], scope), unwraps=name == "orValue")
        place, variable = self._place(), str(arguments[0].children[-1])
        if name == "bind":
            bound = _bound(place, self.code(arguments[1], scope))
            return _binding(place, self.code(arguments[2], {**scope, variable: bound}))
        target = self.code(receiver, scope)
        body = self.code(arguments[1], {**scope, variable: Variable(place, Value(""))})
        return _mapped(target, place, body, flat=name == "optFlatMap")


def _device(frame: Frame) -> Any:
    return frame[DEVICE]


def _names(scope: Scope) -> Names:
    return {name: () if read is _device else None for name, read in scope.items()}


def _places(tree: Tree, scope: Scope) -> set[int]:
    """The places of the loops' variables that an expression may read."""
    found, trees = set(), [tree]
    while trees:
        each = trees.pop()
        if each.data == "ident" and isinstance(read := scope.get(each.children[-1]), Variable):
            found.add(read.place)
        if each.data != CONSTANT:
            trees += [child for child in each.children if isinstance(child, Tree)]
    return found


def _known_of_elements(receiver: Tree, count: int) -> list[Value]:
    """What is known of the variables of a loop: for a constant list of integers, their kind and range."""
    values = receiver.children[0] if receiver.data == CONSTANT else None
    if not isinstance(values, list):
        return [Value("")] * count
    index = Value("", int, 0, len(values))
    integers = bool(values) and all(type(value) is int for value in values)
    element = Value("", int, min(values), max(values)) if integers else Value("")
    return [index, element][-count:]


def _are_primitive(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) in PRIMITIVE for value in values)


def _among(values: list[Any]) -> Callable[[Any], Any]:
    """`in` a constant list, which costs nothing."""
    texts = frozenset(value for value in values if type(value) is str)

    def among(value: Any) -> Any:
        if type(value) is str:
            return value in texts
        return value if type(value) is Failure else contains(values, value)

    return among


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
            return failed(value)
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
