"""Evaluates CEL expressions by walking their trees, written for reading: the value, and what it costs.

Nothing is kept, shared, or written as source. Functions, and what calls of them cost, are those of the project.
"""

from bayplan.core.devices.cel.checking import check
from bayplan.core.devices.cel.costs import CHARGED_AFTERWARDS, cost_of
from bayplan.core.devices.cel.declarations import FUNCTIONS
from bayplan.core.devices.cel.library import IMPLEMENTATIONS
from bayplan.core.devices.cel.library.lists import insert
from bayplan.core.devices.cel.library.operators import contains, look_up, text_of
from bayplan.core.devices.cel.parsing import arguments_of, parse, qualified_name
from bayplan.core.devices.cel.planning import plan
from bayplan.core.devices.cel.values import CelError, Failure, go_type, type_name

LIST, MAP = 10, 30
NO_OVERLOAD = Failure("no such overload")
SELECTING = {"ident", "member_dot", "member_index"}


class TooExpensive(Exception):
    """The evaluation costs more than the limit."""


class PlainSelector:
    """An expression that passed the type checker."""

    def __init__(self, text, limit):
        tree = parse(text)
        check(tree)
        self.tree, self.limit, self.spent = plan(tree), limit, 0

    def value(self, device):
        """The value for a device, which can be a Failure. Raises TooExpensive."""
        self.spent = 0
        found = self.of(self.tree, {"device": device.variable()})
        self.charge(0)
        return found

    def charge(self, cost):
        self.spent += cost
        if self.spent > self.limit:
            raise TooExpensive

    def of(self, tree, names):
        match tree.data:
            case "constant":
                return tree.children[0]
            case "ident":
                self.charge(1)
                bound = names[tree.children[0]]
                return bound.value() if isinstance(bound, Late) else bound
            case "conditional":
                condition, then, otherwise = tree.children
                holds = self.of(condition, names)
                if type(holds) is not bool:
                    return failure(holds)
                return self.part(then if holds else otherwise, names)
            case "or" | "and":
                return self.decided(tree, names)
            case "operator":
                return self.operator(tree, names)
            case "list":
                values = []
                for each in tree.children:
                    values.append(self.of(each, names))
                    if isinstance(values[-1], Failure):
                        break
                self.charge(LIST)
                return values[-1] if values and isinstance(values[-1], Failure) else values
            case "member_dot" | "member_index":
                return self.selection(tree, names)
            case "call" if tree.children[0] == "has":
                (selection,) = arguments_of(tree)
                whole = self.of(selection.children[0], names)
                return whole if isinstance(whole, Failure) else look_up(whole, str(selection.children[1])).present
            case "call":
                return self.call(str(tree.children[0]), [self.of(each, names) for each in arguments_of(tree)])
            case "member_call":
                return self.method(tree, names)
        raise NotImplementedError(tree.data)

    def part(self, tree, names):
        """A part of another attribute: its variable costs nothing."""
        value = self.of(tree, names)
        self.charge(-1 if tree.data in SELECTING else 0)
        return value

    def decided(self, tree, names):
        decisive, problem = tree.data == "or", None
        for each in tree.children:
            value = self.of(each, names)
            if value is decisive:
                return decisive
            if type(value) is not bool:
                problem = problem or failure(value)
        return (not decisive) if problem is None else problem

    def operator(self, tree, names):
        name, *operands = tree.children
        if name == "@in" and is_constant_list(operands[1]):
            values = operands[1].children[0]
            wanted = self.of(operands[0], names) if values else None  # as upstream, not evaluated
            return wanted if isinstance(wanted, Failure) else contains(values, wanted)
        return self.call(name, [self.of(each, names) for each in operands])

    def selection(self, tree, names):
        whole, key = tree.children
        target = self.of(whole, names)
        self.charge(0 if whole.data in {*SELECTING, "conditional"} else 1)
        if isinstance(target, Failure):
            return target
        index = self.part(key, names) if hasattr(key, "data") else str(key)
        if isinstance(index, Failure):
            return index
        if type(index) not in {bool, int, float, str} and type_name(index) != "uint":
            return Failure(f"invalid qualifier type: {type_name(index)}")
        try:
            found = look_up(target, index)
        except CelError as error:
            return Failure(str(error))
        self.charge(1)
        if found.present:
            return found.value
        return Failure(f"{'index out of bounds' if isinstance(target, list) else 'no such key'}: {text_of(index)}")

    def call(self, name, arguments):
        bare, cost = name.removeprefix("."), cost_of(name) or (lambda _given, _result: 1)
        for each in arguments:
            if isinstance(each, Failure):
                self.charge(cost(arguments, None) if len(arguments) <= 2 else 0)
                return each
        self.charge(0 if bare in CHARGED_AFTERWARDS else cost(arguments, None))
        if not any(fits(overload.arguments, arguments) for overload in FUNCTIONS[name]):
            result = Failure(f"no such overload: {bare}({', '.join(map(type_name, arguments))})")
        else:
            try:
                result = IMPLEMENTATIONS[bare](*arguments)
            except CelError as error:
                result = Failure(str(error))
        self.charge(cost(arguments, result) if bare in CHARGED_AFTERWARDS else 0)
        return result

    def method(self, tree, names):
        receiver, name, arguments = tree.children[0], str(tree.children[1]), arguments_of(tree)
        if name == "bind":
            late = Late(lambda: self.of(arguments[1], names))
            return self.of(arguments[2], {**names, arguments[0].children[0]: late})
        if name in LOOPS:
            return self.loop(name, self.of(receiver, names), arguments, names)
        if f"{qualified_name(receiver)}.{name}" in FUNCTIONS:
            return self.call(f"{qualified_name(receiver)}.{name}", [self.of(argument, names) for argument in arguments])
        return self.call(f".{name}", [self.of(each, names) for each in (receiver, *arguments)])

    def loop(self, name, over, arguments, names):
        if isinstance(over, Failure):
            return over
        if name == "sortBy":
            self.charge(2)
            return self.call(".@sortByAssociatedKeys", [over, self.loop("map", over, arguments, names)])
        if not isinstance(over, (list, dict)):
            return Failure(f"got '{go_type(over)}', expected iterable type")
        two = len(arguments) > 2 and name != "map"
        variables, bodies = ([str(each.children[0]) for each in arguments[: 1 + two]], arguments[1 + two :])
        elements = [(each,) for each in over]
        if two:
            elements = list(over.items() if isinstance(over, dict) else enumerate(over))
        rounds = [dict(zip(variables, element, strict=True)) for element in elements]
        result = getattr(self, LOOPS[name])(name, rounds, bodies, names)
        self.charge(1)
        return result

    def quantified(self, name, rounds, bodies, names):
        decisive, problem, condition = name == "exists", None, 3 if name == "exists" else 2
        for number, variables in enumerate(rounds, 1):
            self.charge(condition + 1)
            holds = self.of(bodies[0], names | variables)
            if holds is decisive:
                self.charge(condition if number < len(rounds) else 0)
                return decisive
            if type(holds) is not bool:
                problem = problem or failure(holds)
        return (not decisive) if problem is None else problem

    def one(self, _name, rounds, bodies, names):
        count = 0
        for variables in rounds:
            holds = self.of(bodies[0], names | variables)
            if type(holds) is not bool:
                return failure(holds)
            self.charge(2 if holds else 0)
            count += holds
        self.charge(1)
        return count == 1

    def filtered(self, _name, rounds, bodies, names):
        found = []
        for variables in rounds:
            holds = self.of(bodies[0], names | variables)
            if type(holds) is not bool:
                return failure(holds)
            if holds:
                self.charge(3 + LIST)
                found += variables.values()
        return found

    def mapped(self, name, rounds, bodies, names):
        *conditions, body = bodies
        by_key = name == "transformMap"
        found = {} if by_key else []
        for variables in rounds:
            holds = self.of(conditions[0], names | variables) if conditions else True
            if type(holds) is not bool:
                return failure(holds)
            if holds:
                self.charge(2 + (1 if by_key else 0 if body.data == "constant" else LIST))
                value = self.of(body, names | variables)
                if isinstance(value, Failure):
                    return value
                if by_key:
                    insert(found, {next(iter(variables.values())): value})
                else:
                    found.append(value)
        return found


LOOPS = {
    **dict.fromkeys(("all", "exists"), "quantified"),
    **dict.fromkeys(("exists_one", "existsOne"), "one"),
    "filter": "filtered",
    **dict.fromkeys(("map", "transformList", "transformMap", "sortBy"), "mapped"),
}


class Late:
    """A bound value, which is evaluated at its first use."""

    def __init__(self, evaluate):
        self.evaluate, self.known = evaluate, []

    def value(self):
        if not self.known:
            self.known.append(self.evaluate())
        return self.known[0]


def is_constant_list(tree):
    values = tree.children[0] if tree.data == "constant" else None
    return isinstance(values, list) and all(type(each) in {bool, int, float, str} for each in values)


def failure(value):
    return value if isinstance(value, Failure) else NO_OVERLOAD


def fits(wanted, values):
    return len(wanted) == len(values) and all(map(fits_one, wanted, values))


def fits_one(wanted, value):
    if wanted.dynamic or wanted.free:
        return True
    if wanted.name != type_name(value):
        return False
    if isinstance(value, list):
        element = wanted.parameters[0]
        return not value or element.name == "list" or fits_one(element, value[0])
    return not isinstance(value, dict) or all(fits(wanted.parameters, entry) for entry in [*value.items()][:1])
