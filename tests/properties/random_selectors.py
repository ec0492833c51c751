"""Random CEL expressions that mostly have the right types, with loops over lists, maps and attributes of devices."""

OWN = "device.attributes['d.org']"
NUMBERS = [
    *("0", "1", "2", "3", "-1", "7", "9223372036854775807", "-9223372036854775808"),
    *(f"{OWN}.i", f"{OWN}.j", f"{OWN}['i']", f"{OWN}.s.size()", f"{OWN}.missing", "dyn(2u)", "dyn(1.5)", "dyn('a1')"),
]
TEXTS = [
    *("''", "'a1'", "'b'", "'3'", f"'{'long' * 80}'", f"{OWN}.s", f"{OWN}[device.driver]", "device.driver"),
    *(f"{OWN}.missing", "dyn(1)"),
]
TRUTHS = ["true", "false", f"{OWN}.b", f"{OWN}.missing", "device.allowMultipleAllocations", "dyn(1)", f"has({OWN}.i)"]
OF_NUMBERS = ["[1, 2, 3]", "[2]", "[3, 1, 2, 1]", "[9223372036854775807, 2]", "lists.range(4)"]
OF_TEXTS = ["['a1', 'b', '3']", "['a', 'b'].map(e, e)", "{'a': 1, 'b': 2}"]
LISTS = [
    *("dyn([])", "dyn([1, 'a1', 2.5])", f"dyn({OWN})", "dyn({'a': 1, 'b': 2})", "dyn({1: 'x', 3: 'y'})", "dyn(1)"),
    *("dyn([1, 2, 3])", "dyn(['a', 'b'])", "dyn(lists.range(3))", f"dyn([{OWN}.i, {OWN}.j])"),
]

NONE = {}
"""No variables. Others are given with their kinds: NUMBERS, TEXTS, or None."""


class Expressions:
    """Makes expressions. `random` chooses."""

    def __init__(self, random):
        self.random = random

    def truth(self, depth, names=NONE):
        """A truth value, as a rule."""
        if depth <= 0:
            return self._leaf(TRUTHS, names)
        match self.random.randrange(12):
            case 0 | 1:
                sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
                return f"(dyn({self.number(depth - 1, names)}) {sign} {self.number(depth - 1, names)})"
            case 2:
                sign = self.random.choice(["==", "!=", "<", ">="])
                return f"({self.text(depth - 1, names)} {sign} {self.text(depth - 1, names)})"
            case 3 | 4:
                sign = self.random.choice(["&&", "||"])
                return "(" + f" {sign} ".join(self.truth(depth - 1, names) for _ in range(self._count(2, 4))) + ")"
            case 5:
                return f"!{self.truth(depth - 1, names)}"
            case 6:
                return f"({self.any(depth - 1, names)} in {self.list(depth - 1, names)})"
            case 7:
                method = self.random.choice(["contains", "startsWith", "endsWith"])
                return f"{self.text(depth - 1, names)}.{method}({self.text(depth - 1, names)})"
            case 8:
                return self._either(self.truth, depth, names)
        return self._quantified(depth, names)

    def number(self, depth, names=NONE):
        """An integer, as a rule."""
        if depth <= 0:
            return self._leaf(NUMBERS, names)
        match self.random.randrange(8):
            case 0 | 1 | 2:
                sign = self.random.choice(["+", "-", "*", "*", "/", "%"])
                return f"({self.number(depth - 1, names)} {sign} {self.number(depth - 1, names)})"
            case 3:
                return f"-{self.number(depth - 1, names)}"
            case 4:
                return f"{self.text(depth - 1, names)}.size()"
            case 5:
                return f"dyn({self.list(depth - 1, names)})[{self.number(depth - 1, names)}]"
            case 6:
                return self._either(self.number, depth, names)
        return self._leaf(NUMBERS, names)

    def text(self, depth, names=NONE):
        """A string, as a rule."""
        if depth <= 0:
            return self._leaf(TEXTS, names)
        match self.random.randrange(5):
            case 0 | 1:
                return f"string({self.any(depth - 1, names)})"
            case 2:
                return f"({self.text(depth - 1, names)} + {self.text(depth - 1, names)})"
            case 3:
                return self._either(self.text, depth, names)
        return self._leaf(TEXTS, names)

    def list(self, depth, names=NONE):
        """A list or a map, as a rule."""
        if depth <= 0:
            return self._leaf(LISTS, names)
        name = f"x{len(names)}"
        match self.random.randrange(8):
            case 0:
                return (
                    f"dyn({self.list(depth - 1, names)}).filter({name}, {self.truth(depth - 1, {**names, name: None})})"
                )
            case 1:
                return f"dyn({self.list(depth - 1, names)}).map({name}, {self.any(depth - 1, {**names, name: None})})"
            case 2:
                condition = self.truth(depth - 1, {**names, name: None})
                return (
                    f"dyn({self.list(depth - 1, names)}).map({name}, {condition}, {self.any(1, {**names, name: None})})"
                )
            case 3:
                return f"dyn([{self.any(depth - 1, names)}, {self.any(depth - 1, names)}])"
            case 4:
                inner = {**names, name: None, f"{name}k": None}
                macro = self.random.choice(["transformList", "transformMap"])
                condition = f"{self.truth(1, inner)}, " if self.random.random() < 0.5 else ""
                return f"{self.list(0, names)}.{macro}({name}, {name}k, {condition}{self.any(depth - 1, inner)})"
            case 5:
                return f"[3, 1, 2].sortBy({name}, {self.any(depth - 1, {**names, name: None})})"
        return self._leaf(LISTS, names)

    def any(self, depth, names=NONE):
        """A value of any of these types."""
        return f"dyn({self.random.choice([self.truth, self.number, self.text, self.list])(depth, names)})"

    def _quantified(self, depth, names):
        name = f"x{len(names)}" if self.random.random() < 0.9 or not names else self.random.choice([*names])
        kind, lists = self.random.choice(
            [(NUMBERS, OF_NUMBERS), (NUMBERS, OF_NUMBERS), (TEXTS, OF_TEXTS), (None, None)]
        )
        over = self.random.choice(lists) if lists else self.list(depth - 2, names)
        inner, key = {**names, name: kind}, f"{name}k"
        chance = self.random.random()
        if chance < 0.2 and not over.startswith("{"):
            macro = self.random.choice(["all", "exists", "existsOne"])
            return f"{over}.{macro}({key}, {name}, {self.truth(depth - 1, {**inner, key: NUMBERS if kind else None})})"
        if chance < 0.3:
            return f"cel.bind({name}, {self.any(depth - 1, names)}, {self.truth(depth - 1, {**names, name: None})})"
        macro = self.random.choice(["all", "all", "exists", "exists", "exists_one"])
        return f"{over}.{macro}({name}, {self.truth(depth - 1, inner)})"

    def _either(self, make, depth, names):
        condition = self.truth(depth - 1, names)
        return f"({condition} ? {make(depth - 1, names)} : {make(depth - 1, names)})"

    def _leaf(self, plain, names):
        fitting = [name for name, kind in names.items() if kind is plain]
        chance = self.random.random()
        if fitting and chance < 0.5:
            return self.random.choice(fitting)
        return f"dyn({self.random.choice([*names])})" if names and chance < 0.65 else self.random.choice(plain)

    def _count(self, least, most):
        return self.random.randint(least, most)
