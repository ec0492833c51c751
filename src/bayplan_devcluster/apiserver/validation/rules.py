"""Applies the rules in `rules.json` to objects. Mirrors Kubernetes' pkg/apis/*/validation.

A set of rules has the name of the API type that it is for. `TYPE create`, `TYPE update` and `TYPE status` apply to new
objects, to changes and to changes of the status only. A rule is `PATH RULE ARGUMENTS`:

- PATH is the field's path in the object, `.` for the object itself. With `[]` at the end it is each item of the list,
  with `[LIMIT]` unless there are more. `PATH@SHOWN` shows another path in errors, without `[]` without indices.
- RULE is a function of this module, or `module.function` of another one. It isn't applied to a missing or empty value;
  with `?` it is applied to an empty one, with `!` also to a missing one, as None.
- `rules` applies the set of the value's type, or the set that ARGUMENTS name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from bayplan.core.api import field_errors, quantity
from bayplan.core.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, too_long, too_many
from bayplan.core.api.labels import label_key_errors, label_value_errors
from bayplan.core.api.names import name_errors
from bayplan.core.api.type_table import member
from bayplan.core.devices import limits

IMMUTABLE = "field is immutable"
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_NEEDS = {"required": "!", "choice": "!", "one_of": "?"}
"""The marks of rules that always have one."""
_LINE = re.compile(r"([^@\s\[]+)(\[(\w*)\])?(?:@(\S*))? (\S+?)([?!]?)(?: (.+))?")


class At(NamedTuple):
    """Where a rule is applied."""

    path: str
    arguments: str = ""
    above: tuple[Any, ...] = ()
    """The objects that contain the value, the innermost first."""
    items: Sequence[Any] = ()
    """The list that the innermost of these objects is in, or the value itself if it is an item."""
    number: int = 0
    """The place in the list."""
    old: Any = None
    """The value before a change."""
    features: frozenset[str] = frozenset()
    """The feature gates that are on."""

    @property
    def before(self) -> Sequence[Any]:
        """The earlier items of the list."""
        return self.items[: self.number]


Rule = Callable[[Any, At], Iterator[FieldError]]


class Line(NamedTuple):
    """A rule of a set."""

    fields: tuple[str, ...]
    needs: str
    fine: Callable[[Any], bool] | None
    """A quick way to tell values that meet the rule, where there is one: nearly all do."""
    each: bool
    limit: int | None
    shown: str
    indexed: bool
    rule: Rule
    arguments: str


def has_rules(name: str) -> bool:
    """Whether there is a set of rules of the name."""
    return name in sets()


def check(name: str, obj: Any, at: At | None = None) -> Iterator[FieldError]:
    """Yields what a set of rules finds wrong with an object."""
    at = at or At("")
    prefix = f"{at.path}." if at.path else ""
    inside = (obj, *at.above)
    for fields, needs, fine, each, limit, shown, indexed, rule, arguments in lines(name):
        value = obj
        for field in fields:
            value = value.get(field) if value is not None else None
        if not value:
            if each or (value is None and needs != "!") or (value == "" and not needs):
                continue
        elif fine is not None and not each and fine(value):
            continue
        path = prefix + shown if shown else at.path
        if not each:
            old = _read(at.old, fields) if at.old is not None else None
            yield from rule(
                value, At(path, arguments, inside if fields else at.above, at.items, at.number, old, at.features)
            )
        elif limit is not None and len(value) > limit:
            yield too_many(path, len(value), limit)
        else:
            for index, item in enumerate(value):
                if needs or (item is not None and item != ""):
                    place = f"{path}[{index}]" if indexed else path
                    yield from rule(item, At(place, arguments, inside, value, index, features=at.features))


def _read(value: Any, fields: tuple[str, ...]) -> Any:
    for field in fields:
        value = value.get(field) if value is not None else None
    return value


@cache
def sets() -> dict[str, list[str]]:
    """The sets of rules by name."""
    return msgspec.json.decode(files(__package__).joinpath("rules.json").read_bytes(), type=dict[str, list[str]])


@cache
def lines(name: str) -> tuple[Line, ...]:
    """The rules of a set."""
    return tuple(_line(name.partition(" ")[0], text) for text in sets()[name])


def _line(model: str, text: str) -> Line:
    matched = _LINE.fullmatch(text)
    assert matched is not None, text
    path, each, limit, shown, rule, needs, arguments = matched.groups()
    fields = () if path == "." else tuple(path.split("."))
    if rule == "rules" and not arguments:
        for field in fields:
            found = member(model, field)
            assert found is not None, text
            model = found.type.removeprefix("[]")
        arguments = model
    if shown is None:
        shown = f"{'.'.join(fields)}{'[]' if each else ''}"
    module, _, function = rule.rpartition(".")
    home = import_module(f"{__package__}.{module or 'rules'}")
    return Line(
        fields,
        needs or _NEEDS.get(function, ""),
        _fine(function, arguments),
        each is not None,
        getattr(limits, limit) if limit and not limit.isdigit() else int(limit) if limit else None,
        shown.removesuffix("[]"),
        shown.endswith("[]"),
        getattr(home, function),
        arguments or "",
    )


def _fine(function: str, arguments: str) -> Callable[[Any], bool] | None:
    match function:
        case "required":
            return bool
        case "one_of":
            return frozenset(arguments.split(",")).__contains__
        case "name":
            return lambda value: not name_errors(value, arguments)
        case "label_key":
            return lambda value: not label_key_errors(value)
        case "at_least":
            least = int(arguments.partition(" ")[0])
            return lambda value: bool(value >= least)
        case _:
            return None


def rules(value: Any, at: At) -> Iterator[FieldError]:
    """The set of rules that the arguments name."""
    return check(at.arguments, value, at)


# Rules of single values


def required(value: Any, at: At) -> Iterator[FieldError]:
    """The value must not be missing or empty. The arguments are the detail of the error."""
    if not value:
        yield field_errors.required(at.path, at.arguments)


def one_of(value: str | None, at: At) -> Iterator[FieldError]:
    """One of the values in the arguments."""
    supported = at.arguments.split(",")
    if (value or "") not in supported:
        yield not_supported(at.path, value or "", supported)


def choice(value: str, at: At) -> Iterator[FieldError]:
    """One of the values in the arguments, which is required."""
    yield from one_of(value, at) if value else required(value, at._replace(arguments=""))


def absent(_value: Any, at: At) -> Iterator[FieldError]:
    """The value must not be there. The arguments are the detail of the error."""
    yield forbidden(at.path, at.arguments)


def problems(path: str, value: Any, details: Sequence[str]) -> Iterator[FieldError]:
    """The errors of a value, one for each detail."""
    return (invalid(path, value, detail) for detail in details)


def name(value: str | None, at: At) -> Iterator[FieldError]:
    """A name under the rule in the arguments: `subdomain`, `label`, `label1035` or `path`."""
    return problems(at.path, value or "", name_errors(value or "", at.arguments))


def named(value: str | None, at: At) -> Iterator[FieldError]:
    """The name of an item: a label that is unique in the list."""
    if not value:
        yield field_errors.required(at.path)
    elif any(other.get("name") == value for other in at.before):
        yield duplicate(at.path, value)
    else:
        yield from problems(at.path, value, name_errors(value, "label"))


def driver(value: str | None, at: At) -> Iterator[FieldError]:
    """The name of a driver."""
    if not value:
        yield field_errors.required(at.path)
        return
    if len(value) > 63:
        yield too_long(at.path, 63)
    yield from problems(at.path, value, name_errors(value.lower(), "subdomain"))


def label_key(value: str | None, at: At) -> Iterator[FieldError]:
    """A label's key."""
    return problems(at.path, value or "", label_key_errors(value or ""))


def label_value(value: str, at: At) -> Iterator[FieldError]:
    """A label's value."""
    return problems(at.path, value, label_value_errors(value))


def labels(value: dict[str, str], at: At) -> Iterator[FieldError]:
    """Labels of an object or a selector."""
    for key, text in value.items():
        yield from problems(at.path, key, label_key_errors(key))
        yield from problems(at.path, text, label_value_errors(text))


def length(value: str, at: At) -> Iterator[FieldError]:
    """Text of at most so many characters. The second argument is the detail of the error."""
    most, _, detail = at.arguments.partition(" ")
    if len(value) > int(most):
        yield invalid(at.path, value, detail)


def within(value: Any, at: At) -> Iterator[FieldError]:
    """A number between the first two arguments. The others are the detail of the error, if it isn't the usual one."""
    least, most, *detail = at.arguments.split(" ", 2)
    if not int(least) <= (value or 0) <= int(most):
        usual = f"must be between {least} and {most}, inclusive"
        yield invalid(at.path, value or 0, detail[0] if detail else usual)


def at_least(value: Any, at: At) -> Iterator[FieldError]:
    """A number with a minimum. The second argument is the detail of the error, if it isn't the usual one."""
    least, _, detail = at.arguments.partition(" ")
    if (value or 0) < int(least):
        yield invalid(at.path, value or 0, detail or f"must be greater than or equal to {least}")


def at_most(value: Any, at: At) -> Iterator[FieldError]:
    """A number with a maximum."""
    if value > int(at.arguments):
        yield invalid(at.path, value, f"must be less than or equal to {at.arguments}")


def amount(value: str, at: At) -> Iterator[FieldError]:
    """A quantity that is not negative."""
    if quantity.parse(value) < 0:
        yield invalid(at.path, value, "must be greater than or equal to 0")


def port_name(value: str, at: At) -> Iterator[FieldError]:
    """The name of a port."""
    if len(value) > 15:
        yield invalid(at.path, value, "must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", value):
        yield invalid(at.path, value, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        yield invalid(at.path, value, "must contain at least one letter (a-z)")
    if "--" in value:
        yield invalid(at.path, value, "must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        yield invalid(at.path, value, "must not begin or end with a hyphen")


def port(value: int, at: At) -> Iterator[FieldError]:
    """The number of a port, or 0 for none."""
    if value and not 1 <= value <= 65535:
        yield invalid(at.path, value, "must be between 1 and 65535, inclusive")


def port_or_name(value: Any, at: At) -> Iterator[FieldError]:
    """The number or the name of a port."""
    if isinstance(value, str):
        yield from port_name(value, at)
    elif not 1 <= (value or 0) <= 65535:
        yield invalid(at.path, value or 0, "must be between 1 and 65535, inclusive")


def share(value: int | str, at: At) -> Iterator[FieldError]:
    """A number of pods, or a percentage up to 100, or without a limit with the argument `unlimited`."""
    if isinstance(value, int):
        if value < 0:
            yield invalid(at.path, value, "must be greater than or equal to 0")
    elif not re.fullmatch(r"[0-9]+%", value):
        yield invalid(at.path, value, PERCENT_RULE)
    elif at.arguments != "unlimited" and share_number(value) > 100:
        yield invalid(at.path, value, "must not be greater than 100%")


def share_number(value: int | str) -> int:
    """The number in an integer or a percentage, 0 for other text. Mirrors getIntOrPercentValue."""
    if isinstance(value, int):
        return value
    if not re.fullmatch(r"[0-9]+%", value):
        return 0
    digits = value[:-1].lstrip("0")
    return int(digits or 0) if len(digits) <= 9 else 10**9


# Rules of lists


def unique(value: Any, at: At) -> Iterator[FieldError]:
    """A field, or the field in the arguments, whose value no earlier item has."""
    key = at.arguments or at.path.rpartition(".")[2]
    given = value[key] if at.arguments else value or ""
    if any((other.get(key) or "") == given for other in at.before):
        yield duplicate(at.path, given)


def max_items(value: Sequence[Any], at: At) -> Iterator[FieldError]:
    """A list of at most so many items."""
    if len(value) > int(at.arguments):
        yield too_many(at.path, len(value), int(at.arguments))


def distinct(value: Sequence[Any], at: At) -> Iterator[FieldError]:
    """A list whose items have distinct values of the first argument. The second argument limits the check."""
    key, limit = at.arguments.split(" ")
    seen: set[str] = set()
    for index, item in enumerate(value[: getattr(limits, limit)]):
        if item.get(key, "") in seen:
            yield duplicate(f"{at.path}[{index}]", item[key])
        seen.add(item.get(key, ""))


# Rules of changes


def unchanged(value: Any, at: At) -> Iterator[FieldError]:
    """A value that must not change. The arguments are the detail of the error, if it isn't the usual one."""
    if value != at.old:
        yield invalid(at.path, value, at.arguments or IMMUTABLE)


def fixed(value: Any, at: At) -> Iterator[FieldError]:
    """A value that must not change; the error is that this is forbidden."""
    if value != at.old:
        yield forbidden(at.path, at.arguments)


def set_once(value: Any, at: At) -> Iterator[FieldError]:
    """A value that must not change once it is set."""
    if at.old and value != at.old:
        yield forbidden(at.path, at.arguments)
