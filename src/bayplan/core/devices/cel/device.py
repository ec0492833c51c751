"""The `device` variable of a selector. Mirrors DeviceMatches in k8s.io/dynamic-resource-allocation/cel/compile.go.

`DeviceFacts` is what expressions can read of a device, hashable: devices with equal facts have equal results.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayplan.core.devices.cel.values import DomainMap, Quantity, Semver

if TYPE_CHECKING:
    from bayplan.core.devices.cel.reading import Path

_Named = tuple[tuple[str, tuple[str, Any]], ...]
_Amounts = tuple[tuple[str, str], ...]


_SCALARS = ("int", "bool", "string", "version")
_LISTS = ("ints", "bools", "strings", "versions")


class UnreadableAttribute(ValueError):
    """A device has an invalid attribute or capacity, so no expression can be evaluated for it."""


class DeviceFacts:
    """The fields of a device that expressions can read: an immutable, hashable cache key."""

    __slots__ = ("_hash", "_key", "_listed", "_readable", "_variable")

    def __init__(self, driver: str, allow_multiple: bool, attributes: _Named, capacity: _Amounts) -> None:
        """`attributes` and `capacity` are sorted by name.

        An attribute is a pair of its kind (such as string or strings; "" if unknown) and its value or tuple of values,
        a capacity the text of its quantity.
        """
        self._key = (driver, allow_multiple, attributes, capacity)
        self._hash = hash(self._key)
        self._readable = False
        self._listed = next((name for name, (kind, _) in attributes if kind in _LISTS), "")
        """The first attribute with a list of values."""
        self._variable: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, driver: str, allow_multiple: bool, attributes: Mapping[str, Any] | None, capacity: Mapping[str, Any] | None
    ) -> DeviceFacts:
        """The facts of a device in a resource slice."""
        named = tuple(sorted((name, _attribute(value)) for name, value in (attributes or {}).items()))
        amounts = tuple(sorted((name, str(value.get("value", "0"))) for name, value in (capacity or {}).items()))
        return cls(driver, allow_multiple, named, amounts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, DeviceFacts) and self._hash == other._hash and self._key == other._key

    def __repr__(self) -> str:
        return f"DeviceFacts{self._key}"

    def reading(self, paths: Sequence[Path], *, lists: bool = False) -> tuple[Any, ...]:
        """What there is at these paths, as a hashable value. Raises UnreadableAttribute, whatever the paths are.

        `lists`: attributes may have lists of values.
        """
        if not self._readable:
            self._made()
            self._readable = True
        self._check_lists(lists)
        return self.at(paths)

    def at(self, paths: Sequence[Path]) -> tuple[Any, ...]:
        """What there is at these paths of a device that an expression already reads, as a hashable value."""
        return tuple(map(self._at, paths))

    def _at(self, path: Path) -> Any:
        driver, allow_multiple, attributes, capacity = self._key
        match path:
            case ("driver",):
                return driver
            case ("allowMultipleAllocations",):
                return allow_multiple
            case ("attributes" | "capacity" as field, *rest):
                named = attributes if field == "attributes" else capacity
                return _named(named, driver, *rest) if rest else named
        return self._key

    def variable(self, *, lists: bool = False) -> dict[str, Any]:
        """The value of `device`, in which attributes may have `lists`. Raises UnreadableAttribute."""
        self._check_lists(lists)
        if self._variable is None:
            self._variable = self._made()
        return self._variable

    def _check_lists(self, lists: bool) -> None:
        if self._listed and not lists:
            raise _unsupported(self._listed)

    def _made(self) -> dict[str, Any]:
        driver, allow_multiple, named, amounts = self._key
        attributes, capacity = DomainMap(), DomainMap()
        for name, value in named:
            _put(attributes, name, driver, _value(name, *value))
        for name, text in amounts:
            try:
                _put(capacity, name, driver, Quantity.parse(text))
            except ValueError as error:
                raise UnreadableAttribute(f"capacity {name}: {error}") from None
        return {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple,
            "attributes": attributes,
            "capacity": capacity,
        }


def _named(named: Sequence[tuple[str, Any]], driver: str, domain: str, name: str | None = None) -> Any:
    """The entries of a domain, or one of them."""
    if name is None:
        return tuple(entry for entry in named if _parts(entry[0], driver)[0] == domain)
    written = [f"{domain}/{name}", *([name] if domain == driver else ())]
    places = [
        place for each in written if (place := bisect_left(named, (each,))) < len(named) and named[place][0] == each
    ]
    return named[max(places)] if places else None


def _parts(name: str, driver: str) -> tuple[str, str]:
    """The domain of a name, and the rest."""
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _put(by_domain: DomainMap, name: str, driver: str, value: Any) -> None:
    domain, key = _parts(name, driver)
    by_domain.setdefault(domain, {})[key] = value


def _attribute(value: Mapping[str, Any]) -> tuple[str, Any]:
    for kind in _SCALARS:
        if value.get(kind) is not None:
            return kind, value[kind]
    return next(((kind, tuple(value[kind])) for kind in _LISTS if value.get(kind)), ("", None))


def _value(name: str, kind: str, value: Any) -> Any:
    match kind:
        case "int" | "bool" | "string":
            return value
        case "version":
            return _version(name, value)
        case "versions":
            return [_version(name, each) for each in value]
        case "ints" | "bools" | "strings":
            return list(value)
    raise _unsupported(name)


def _version(name: str, text: str) -> Semver:
    try:
        return Semver.parse(text)
    except ValueError as error:
        raise UnreadableAttribute(f"attribute {name}: parse semantic version: {error}") from None


def _unsupported(name: str) -> UnreadableAttribute:
    return UnreadableAttribute(f"attribute {name}: unsupported attribute value")
