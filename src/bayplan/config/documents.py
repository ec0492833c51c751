"""Documents into typed values, strictly: unknown and repeated fields and wrong types are refused with their paths.

As in Go, null is a field's empty value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect

from bayplan.api import field_errors
from bayplan.api.field_errors import FieldError
from bayplan.config.errors import ConfigurationError

T = TypeVar("T")


def parse_yaml(text: str, source: str = "") -> dict[str, Any]:
    """The mapping that a YAML (or JSON) document holds. Raises ConfigurationError, with the line where it can."""
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigurationError([FieldError("", f"{where}{error.problem or error.context}")], source) from None
    except yaml.YAMLError as error:
        raise ConfigurationError([FieldError("", f"not YAML: {error}")], source) from None
    if not isinstance(document, dict):
        found = "nothing" if document is None else f"a {type(document).__name__}"
        raise ConfigurationError([FieldError("", f"expected a mapping of fields, found {found}")], source)
    return document


def convert(document: Mapping[str, Any], cls: type[T], path: str = "") -> T:
    """A document as a value of a msgspec type or dataclass. Raises ConfigurationError with paths below `path`."""
    unknown = [fault.below(path) for fault in _unknown_fields(_type_info(cls), document, "")]
    if unknown:
        raise ConfigurationError(unknown)
    try:
        return msgspec.convert(_without_nulls(document), cls, strict=True)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        raise ConfigurationError([FieldError(where.removesuffix("`").removeprefix("."), problem).below(path)]) from None


_type_info: Callable[[Any], inspect.Type] = cache(inspect.type_info)


def _unknown_fields(info: inspect.Type, value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(info, inspect.UnionType):
        concrete = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        if len(concrete) == 1:
            yield from _unknown_fields(concrete[0], value, path)
    elif isinstance(info, inspect.StructType | inspect.DataclassType) and isinstance(value, Mapping):
        fields = {field.encode_name: field.type for field in info.fields}
        for name, item in value.items():
            where = field_errors.join(path, str(name))
            if name in fields:
                yield from _unknown_fields(fields[name], item, where)
            else:
                yield FieldError(where, f"unknown field; known are {', '.join(fields)}")
    elif isinstance(info, inspect.ListType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_fields(info.item_type, item, f"{path}[{index}]")
    elif isinstance(info, inspect.DictType) and isinstance(value, Mapping):
        for name, item in value.items():
            yield from _unknown_fields(info.value_type, item, field_errors.join(path, str(name)))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: no key twice, and no dates."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, refused when a key is there twice."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", key_node.start_mark)
            seen.add(key if isinstance(key, Hashable) else None)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
