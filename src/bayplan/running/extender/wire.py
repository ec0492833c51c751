"""The types of the extender protocol, with JSON encoding and decoding.

Mirrors k8s.io/kube-scheduler/extender/v1/types.go. Pods and nodes stay JSON (`msgspec.Raw`), so that unknown fields
are preserved. As in Go, field names are case-insensitive and null is an empty value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

MAX_EXTENDER_PRIORITY = 10
"""An extender's scores are 0 to 10. They are multiplied by the extender's weight and 100/10."""

NULL = msgspec.Raw(b"null")

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The range of Go's int64; other integers are errors."""


class WireError(ValueError):
    """An invalid body. The message has the path and what is expected."""


class _Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Unknown names make `read` use its slow path, which ignores case and drops unknown fields."""


class NodeList(_Strict, kw_only=True):
    """Whole nodes, each as JSON."""

    kind: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    apiVersion: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] = []


class ExtenderArgs(_Strict, kw_only=True):
    """A request about nodes for a pod: whole `Nodes`, or `NodeNames` if the extender is nodeCacheCapable."""

    Pod: msgspec.Raw = NULL
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class ExtenderFilterResult(_Strict, kw_only=True):
    """The accepted nodes in the form of the request, and the reasons for the others."""

    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] | None = None
    FailedAndUnresolvableNodes: dict[str, str] | None = None
    """Nodes on which preemption wouldn't help. They override `FailedNodes`."""
    Error: str = ""


class HostPriority(_Strict, kw_only=True):
    """The score of one node, 0 to 10."""

    Host: str = ""
    Score: Int64 = 0


class Victims(_Strict, kw_only=True):
    """Pods to evict from a node, whole."""

    Pods: list[msgspec.Raw] = []
    NumPDBViolations: Int64 = 0


class MetaPod(_Strict, kw_only=True):
    """A pod by its uid."""

    UID: str = ""


class MetaVictims(_Strict, kw_only=True):
    """Pods to evict from a node, by uid."""

    Pods: list[MetaPod] = []
    NumPDBViolations: Int64 = 0


class ExtenderPreemptionArgs(_Strict, kw_only=True):
    """Candidates for a preemption: whole victims, or uids if the extender is nodeCacheCapable."""

    Pod: msgspec.Raw = NULL
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(_Strict, kw_only=True):
    """The accepted candidates, always with uids."""

    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None


class ExtenderBindingArgs(_Strict, kw_only=True):
    """A request to bind a pod."""

    PodName: str = ""
    PodNamespace: str = ""
    PodUID: str = ""
    Node: str = ""


class ExtenderBindingResult(_Strict, kw_only=True):
    """The result of a binding; "" means success."""

    Error: str = ""


def write(value: Any) -> bytes:
    """The JSON of a value of this module, or of a list of them."""
    return _encoder.encode(value)


def read(wanted: type[T], body: bytes) -> T:
    """Decode a body as a type of this module, or as a list of one. Raises WireError."""
    try:
        value: T = _decoder(wanted).decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        try:
            value = _read(inspect.type_info(wanted), msgspec.Raw(body), "")
        except msgspec.DecodeError as error:
            raise WireError(f"not JSON: {error}") from None
        except UnicodeDecodeError as error:
            raise WireError(f"not a text in UTF-8: {error.reason}") from None
        except RecursionError:
            raise WireError("nested too deeply") from None
    return value


_encoder = msgspec.json.Encoder()
_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(msgspec.json.Decoder)
_any_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any_items = msgspec.json.Decoder(list[msgspec.Raw])


def _read(info: inspect.Type, raw: msgspec.Raw, path: str) -> Any:
    """Decode like Go: case-insensitive names, unknown fields dropped, null allowed everywhere."""
    if isinstance(info, inspect.UnionType):
        if bytes(raw).strip() == b"null":
            return None
        info = next(each for each in info.types if not isinstance(each, inspect.NoneType))
    try:
        if isinstance(info, inspect.RawType):
            return raw
        if isinstance(info, inspect.StructType):
            given = {} if bytes(raw).strip() == b"null" else _any_fields.decode(raw)
            fields = {field.encode_name.lower(): field for field in info.fields}
            values = {}
            for name, value in given.items():
                field = fields.get(name.lower())
                if field is not None:
                    values[field.name] = _read(field.type, value, f"{path}.{field.name}" if path else field.name)
            return info.cls(**values)
        if isinstance(info, inspect.ListType):
            items = [] if bytes(raw).strip() == b"null" else _any_items.decode(raw)
            return [_read(info.item_type, item, f"{path}[{index}]") for index, item in enumerate(items)]
        if isinstance(info, inspect.DictType):
            entries = {} if bytes(raw).strip() == b"null" else _any_fields.decode(raw)
            return {name: _read(info.value_type, value, f"{path}[{name!r}]") for name, value in entries.items()}
        if bytes(raw).strip() == b"null":
            return "" if isinstance(info, inspect.StrType) else 0
        return msgspec.json.decode(raw, type=str if isinstance(info, inspect.StrType) else Int64)
    except msgspec.ValidationError as error:
        raise WireError(f"{path or 'body'}: {error}") from None
