"""Label and field selectors in the text form of list and watch requests, and validation of labels.

Mirrors apimachinery's pkg/labels/selector.go, pkg/fields/selector.go and pkg/util/validation. `selectors` parses the
selectors in objects (LabelSelector, NodeSelector).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from bayplan.core.api.sharing import shared

QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
QUALIFIED_RULE = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


class InvalidSelector(ValueError):
    """A malformed selector. The message is kube-apiserver's."""


@shared
def label_key_errors(key: str) -> tuple[str, ...]:
    """The errors of the key of a label, annotation or taint; empty for a valid qualified name."""
    prefix, slash, name = key.rpartition("/")
    errors = []
    if "/" in prefix:
        return (QUALIFIED_RULE,)
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash and not (SUBDOMAIN.fullmatch(prefix) and len(prefix) <= 253):
        errors.append(f"prefix part {SUBDOMAIN_RULE}")
    if not name:
        errors.append("name part must be non-empty")
    if len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not QUALIFIED_NAME.fullmatch(name):
        errors.append(NAME_RULE)
    return tuple(errors)


def is_int64(text: str) -> bool:
    """Whether a text is a decimal 64-bit integer, as Gt and Lt require."""
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


@shared
def label_value_errors(value: str) -> tuple[str, ...]:
    """The errors of a label's value; empty for a valid one."""
    errors = []
    if len(value) > 63:
        errors.append("must be no more than 63 bytes")
    if not LABEL_VALUE.fullmatch(value):
        errors.append(VALUE_RULE)
    return tuple(errors)


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """A requirement of a label selector.

    `operator` is in, notin, =, ==, !=, exists, !, gt or lt. `values`: a set, or a tuple if there is only one, because
    that takes a quarter of the memory, and there may be 100,000; `Requirement.of` chooses.
    """

    key: str
    operator: str
    values: Collection[str] = ()

    @classmethod
    def of(cls, key: str, operator: str, values: Iterable[str]) -> Requirement:
        """Return the requirement with these values."""
        found = frozenset(values)
        return cls(key, operator, found if len(found) > 1 else tuple(found))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the requirement. notin and != also match objects without the label."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
            case _:
                return value is not None and self._compares(value)

    def __str__(self) -> str:
        """The requirement in the syntax of selectors."""
        values = sorted(self.values)
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "=" | "==" if len(values) == 1:
                return f"{self.key}={values[0]}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(values)})"
            case "gt" | "lt":
                return f"{self.key}{'>' if self.operator == 'gt' else '<'}{values[0]}"
            case _:
                return f"{self.key}{self.operator}{','.join(values)}"

    @property
    def wants(self) -> str:
        """The requirement with its values in parentheses, also if there is only one: `zone in (b)`."""
        if self.operator in {"in", "=", "=="}:
            return f"{self.key} in ({', '.join(sorted(self.values))})"
        return str(self)

    def _compares(self, value: str) -> bool:
        bound = next(iter(self.values))
        if not (is_int64(value) and is_int64(bound)):
            return False
        return int(value) > int(bound) if self.operator == "gt" else int(value) < int(bound)


class LabelSelector(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Requirements that must all be met. A selector without requirements matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


@shared
def parse_label_selector(text: str) -> LabelSelector:
    """Parse a selector such as `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Raises InvalidSelector."""
    return _LabelParser(text).parse()


_SPACES = " \t\r\n"
_SPECIAL = "=!(),><"
_OPERATORS = {"=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt", "in": "in", "notin": "notin"}


class _LabelParser:
    """A parser over a list of words. The empty word marks the end."""

    def __init__(self, text: str) -> None:
        self._words = list(_words(text))
        self._position = 0

    def parse(self) -> LabelSelector:
        requirements: list[Requirement] = []
        while word := self._peek():
            if word != "!" and not _is_identifier(word):
                raise InvalidSelector(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except InvalidSelector as error:
                raise InvalidSelector(f"unable to parse requirement: {error}") from error
            separator = self._next()
            if separator == "":
                break
            if separator != ",":
                raise InvalidSelector(f"found '{separator}', expected: ',' or 'end of string'")
            following = self._peek()
            if following != "!" and not _is_identifier(following):
                raise InvalidSelector(f"found '{following}', expected: identifier after ','")
        return LabelSelector(tuple(requirements))

    def _requirement(self) -> Requirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if not _is_identifier(key):
            raise InvalidSelector(f"found '{key}', expected: identifier")
        for error in label_key_errors(key):
            raise InvalidSelector(f'<nil>: Invalid value: "{key}": {error}')
        if absent or self._peek() in {"", ","}:
            return Requirement(key, "!" if absent else "exists")
        word = self._next()
        operator = _OPERATORS.get(word)
        if operator is None:
            raise InvalidSelector(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in {"in", "notin"} else {self._exact_value()}
        for value in sorted(values):
            for error in label_value_errors(value):
                raise InvalidSelector(f'values[0][{key}]: Invalid value: "{value}": {error}')
        if operator in {"gt", "lt"} and not re.fullmatch(r"[+-]?\d+", next(iter(values))):
            value = next(iter(values))
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise InvalidSelector(f'values[0]: Invalid value: "{value}": {rule}')
        return Requirement.of(key, operator, values)

    def _exact_value(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        word = self._next()
        if not _is_identifier(word) and word not in {"in", "notin"}:
            raise InvalidSelector(f"found '{word}', expected: identifier")
        return word

    def _values(self) -> set[str]:
        word = self._next()
        if word != "(":
            raise InvalidSelector(f"found '{word}' expected: '('")
        values: set[str] = set()
        last = ","
        while (word := self._next()) != ")":
            if word == ",":
                if last == ",":
                    values.add("")
            elif not _is_identifier(word):
                raise InvalidSelector(f"found '{word}', expected: ',', or identifier")
            elif last != ",":
                raise InvalidSelector(f"found '{word}', expected: ',' or ')'")
            else:
                values.add(word)
            last = word
        if last == ",":
            values.add("")
        return values

    def _peek(self) -> str:
        return self._words[self._position] if self._position < len(self._words) else ""

    def _next(self) -> str:
        word = self._peek()
        self._position += 1
        return word


def _is_identifier(word: str) -> bool:
    return bool(word) and word[0] not in _SPECIAL


def _words(text: str) -> list[str]:
    return re.findall(rf"==|!=|[{_SPECIAL}]|[^{_SPECIAL}{_SPACES}]+", text)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms (field, whether it must equal the value, value) that must all be met."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected. Missing fields count as empty."""
        return all((fields.get(field, "") == value) is equal for field, equal, value in self.terms)

    def __str__(self) -> str:
        """The selector, for people."""
        return ", ".join(f"{field}{'=' if equal else '!='}{value}" for field, equal, value in self.terms)

    def exact(self, field: str) -> str | None:
        """The value that a field must equal; None if the selector doesn't require one."""
        return next((value for name, equal, value in self.terms if equal and name == field), None)


def parse_field_selector(text: str, supported: Callable[[str], bool]) -> FieldSelector:
    """Parse a selector such as `a.b=c,d!=e`. Raises InvalidSelector, also for an unsupported field."""
    terms = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        match = re.match(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            raise InvalidSelector(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, value = match.groups()
        if not supported(field):
            raise InvalidSelector(f"field label not supported: {field}")
        terms.append((field, operator != "!=", re.sub(r"\\([\\,=])", r"\1", value)))
    return FieldSelector(tuple(terms))
