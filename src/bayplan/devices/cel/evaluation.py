"""Evaluates expressions: extends cel-python's evaluator by macros, optionals and costs.

Mirrors the costs of cel-go's interpreter/runtimecost.go. Failures are values (CELEvalError), because && and || absorb
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from celpy.celtypes import BoolType, DoubleType, IntType, ListType, MapType, StringType, UintType
from celpy.evaluation import CELEvalError, Evaluator

from bayplan.devices.cel.calls import Calls
from bayplan.devices.cel.costs import NEW_LIST, NEW_MAP, Meter
from bayplan.devices.cel.declarations import FUNCTIONS
from bayplan.devices.cel.library.operators import contains, look_up, text_of
from bayplan.devices.cel.loops import Loop
from bayplan.devices.cel.macros import macro_of
from bayplan.devices.cel.parsing import CONSTANT, OPERATORS, Tree, arguments_of, qualified_name
from bayplan.devices.cel.values import ABSENT, CelError, Optional, type_name

_ATTRIBUTES = frozenset({"ident", "dot_ident", "member_dot", "member_index"})
_OPTIONAL = frozenset({"member_optional_dot", "member_optional_index"})
_SELECTING = _ATTRIBUTES | _OPTIONAL
_FREE = _SELECTING | {"expr"}
"""Operands from which selecting a field costs nothing extra."""

PRIMITIVE = (BoolType, IntType, UintType, DoubleType, StringType)
"""The types of keys and indexes."""


class _Bound:
    """The value of a name in `cel.bind`, evaluated at first use."""

    __slots__ = ("_evaluate", "_values")

    def __init__(self, evaluate: Callable[[], Any]) -> None:
        self._evaluate = evaluate
        self._values: list[Any] = []

    def value(self) -> Any:
        """The value, which can be a failure."""
        if not self._values:
            self._values.append(self._evaluate())
        return self._values[0]


class SelectorEvaluator(Evaluator):
    """Evaluates one expression once. Raises CostExceeded above the cost limit; && and || don't absorb that."""

    def __init__(self, tree: Tree, variables: Mapping[str, Any], meter: Meter) -> None:
        self._calls = Calls(meter)
        super().__init__(tree, self._calls)
        self.meter = meter
        self._scope: Mapping[str, Any] = variables

    def within(self, variables: Mapping[str, Any], tree: Tree) -> Any:
        """The value of a subexpression in which further variables are bound."""
        outer, self._scope = self._scope, {**self._scope, **variables}
        value = self.visit(tree)
        self._scope = outer
        return value

    def ident_value(self, name: str, root_scope: bool = False) -> Any:
        """The value of a name."""
        value = self._scope[name]
        return value.value() if isinstance(value, _Bound) else value

    def constant(self, tree: Tree) -> Any:
        """A folded constant. It costs nothing."""
        return tree.children[0]

    def ident(self, tree: Tree) -> Any:
        """A name."""
        value = self.ident_value(str(tree.children[0]))
        self.meter.spend(1)
        return value

    dot_ident = ident

    def expr(self, tree: Tree) -> Any:
        """A conditional. Reading the variable of its result costs nothing."""
        condition = self.visit(tree.children[0])
        if not isinstance(condition, BoolType):
            return _failed(condition)
        return self._attribute_part(tree.children[1 if condition else 2])

    def _attribute_part(self, tree: Tree) -> Any:
        """The value of a part of another attribute: only its qualifiers have a cost."""
        value = self.visit(tree)
        if tree.data in _SELECTING:
            self.meter.spend(-1)
        return value

    def conditionalor(self, tree: Tree) -> Any:
        """True if any operand is, even if others fail."""
        return self._decided(tree, decisive=True)

    def conditionaland(self, tree: Tree) -> Any:
        """False if any operand is, even if others fail."""
        return self._decided(tree, decisive=False)

    def _decided(self, tree: Tree, decisive: bool) -> Any:
        failure = None
        for operand in tree.children:
            value = self.visit(operand)
            if not isinstance(value, BoolType):
                failure = failure or _failed(value)
            elif bool(value) is decisive:
                return value
        return failure or BoolType(not decisive)

    def relation(self, tree: Tree) -> Any:
        """A comparison. `in` a constant list costs nothing."""
        operator, right = tree.children
        left = operator.children[0]
        if operator.data == "relation_in" and right.data == CONSTANT and isinstance(right.children[0], ListType):
            values = right.children[0]
            if all(isinstance(value, PRIMITIVE) for value in values):
                wanted = self.visit(left) if values else None
                return wanted if isinstance(wanted, CELEvalError) else BoolType(contains(values, wanted))
        return self._calls.call(OPERATORS[operator.data], self.visit(left), self.visit(right))

    def list_lit(self, tree: Tree) -> Any:
        """A list. Absent optional elements are omitted."""
        values = ListType()
        failure = None
        for element in tree.children:
            value = self.visit(element)
            if isinstance(value, CELEvalError):
                failure = value
                break
            if element.data != "optional_element":
                values.append(value)
            elif value.present:
                values.append(value.value)
        self.meter.spend(NEW_LIST)
        return failure or values

    def optional_element(self, tree: Tree) -> Any:
        """An optional element of a list or a map."""
        value = self.visit(tree.children[0])
        if isinstance(value, (Optional, CELEvalError)):
            return value
        return CELEvalError("cannot initialize optional element from non-optional value")

    def map_lit(self, tree: Tree) -> Any:
        """A map. Absent optional entries are omitted."""
        found = self._entries(tree)
        self.meter.spend(NEW_MAP)
        return found

    def _entries(self, tree: Tree) -> Any:
        found = MapType()
        for key_tree, value_tree in (entry.children for entry in tree.children):
            key, value = self.visit(key_tree), self.visit(value_tree)
            optional = value_tree.data == "optional_element"
            for part in (key, value):
                if isinstance(part, CELEvalError):
                    return part
            if isinstance(key, (ListType, MapType, Optional)):
                return CELEvalError(f"unsupported key type: {type_name(key)}")
            try:
                if not optional or value.present:
                    found[key] = value.value if optional else value
                else:
                    found.pop(key, None)
            except TypeError:  # raised by cel-python for keys that are equal in Python, such as 1, 1u and true
                return CELEvalError("keys of a map are of different types")
        return found

    def member_dot(self, tree: Tree) -> Any:
        """A field."""
        return self._selected(tree, StringType(str(tree.children[1])))

    def member_optional_dot(self, tree: Tree) -> Any:
        """An optional field."""
        return self._selected(tree, StringType(str(tree.children[1])))

    def member_index(self, tree: Tree) -> Any:
        """An element."""
        return self._selected(tree, tree.children[1])

    def member_optional_index(self, tree: Tree) -> Any:
        """An optional element."""
        return self._selected(tree, tree.children[1])

    def _selected(self, tree: Tree, key: Any) -> Any:
        found = self._found(tree, key)
        if isinstance(found, CELEvalError):
            return found
        optional, value, missing = found
        if optional:
            if value.present:
                self.meter.spend(1)
            return value
        self.meter.spend(1)
        return value.value if value.present else missing

    def _found(self, tree: Tree, key: Any) -> Any:
        """Whether the selection is optional, the selected value, and the failure if a required one is absent."""
        whole = self.visit(tree.children[0])
        if tree.children[0].data not in _FREE:
            self.meter.spend(1)
        optional = tree.data in _OPTIONAL
        if isinstance(whole, Optional):
            if not whole.present:
                return True, ABSENT, None
            whole, optional = whole.value, True
        if not isinstance(key, StringType) and not isinstance(whole, CELEvalError):
            key = self._attribute_part(key)
        for part in (whole, key):
            if isinstance(part, CELEvalError):
                return part
        if not isinstance(key, PRIMITIVE):
            return CELEvalError(f"invalid qualifier type: {type_name(key)}")
        try:
            value = look_up(whole, key)
        except CelError as error:
            return CELEvalError(str(error))
        problem = "index out of bounds" if isinstance(whole, ListType) else "no such key"
        return optional, value, CELEvalError(f"{problem}: {text_of(key)}")

    def ident_arg(self, tree: Tree) -> Any:
        """A call of a function, or the macro `has`."""
        name, arguments = str(tree.children[0]), arguments_of(tree)
        if name == "has" and len(arguments) == 1:
            return self._has(arguments[0])
        return self._calls.call(name, *map(self.visit, arguments))

    dot_ident_arg = ident_arg

    def _has(self, tree: Tree) -> Any:
        found = self._found(tree, StringType(str(tree.children[1])))
        return found if isinstance(found, CELEvalError) else BoolType(found[1].present)

    def member_dot_arg(self, tree: Tree) -> Any:
        """A call of a method, of a namespaced function, or of a macro."""
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        macro = macro_of(receiver, name, arguments)
        if macro is not None:
            return self._macro(receiver, name, macro.variables, arguments)
        namespaced = f"{qualified_name(receiver)}.{name}"
        if namespaced in FUNCTIONS:
            return self._calls.call(namespaced, *map(self.visit, arguments))
        target = self.visit(receiver)
        if name in {"or", "orValue"}:
            return self._or_else(target, arguments[0], unwraps=name == "orValue")
        return self._calls.call(f".{name}", target, *map(self.visit, arguments))

    def _or_else(self, target: Any, otherwise: Tree, unwraps: bool) -> Any:
        """`or` and `orValue`: evaluates the alternative only if the target is absent. The call itself is free."""
        if not isinstance(target, Optional):
            return target
        if target.present:
            return target.value if unwraps else target
        return self.visit(otherwise)

    def _macro(self, receiver: Tree, name: str, variables: int, arguments: list[Tree]) -> Any:
        names = [str(argument.children[0]) for argument in arguments[:variables]]
        if name == "bind":
            scope = self._scope
            return self.within({names[0]: _Bound(lambda: self._in_scope(scope, arguments[1]))}, arguments[2])
        before = self.meter.spent
        values = self.visit(receiver)
        if isinstance(values, CELEvalError):
            return values
        if name in {"optMap", "optFlatMap"}:
            return self._mapped(values, names[0], arguments[1], self.meter.spent - before, flat=name == "optFlatMap")
        loop = Loop(self.meter, self.within, names, arguments[variables:])
        if name != "sortBy":
            return loop.run(name, values)
        self.meter.spend(2)
        keys = loop.run("map", values)
        return self._calls.call(".@sortByAssociatedKeys", values, keys)

    def _in_scope(self, scope: Mapping[str, Any], tree: Tree) -> Any:
        outer, self._scope = self._scope, scope
        value = self.visit(tree)
        self._scope = outer
        return value

    def _mapped(self, target: Any, name: str, body: Tree, again: int, flat: bool) -> Any:
        """`optMap` and `optFlatMap`. Upstream evaluates the target twice: for its presence, and for its value."""
        if not isinstance(target, Optional):
            return _failed(target)
        self.meter.spend(1)
        if not target.present:
            self.meter.spend(1)
            return ABSENT
        self.meter.spend(again + (1 if flat else 2))
        value = self.within({name: target.value}, body)
        return value if flat or isinstance(value, CELEvalError) else Optional(True, value)


def _failed(value: Any) -> CELEvalError:
    return value if isinstance(value, CELEvalError) else CELEvalError("no such overload")
