"""Files of other tools: dumps with logs in them, exports of the scheduler's simulator, and traces of SimKube."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bayplan.core.api import kinds
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.foundations.bounded_files import GZIP, TAR, TAR_AT
from bayplan.foundations.manifest_files import in_utf_8

Exported = tuple[tuple[str, str], bytes, bool]
"""`apiVersion` and `kind` of an object ("" if it has them itself), its JSON, and whether it stays or is deleted."""

_LOGS = re.compile(
    rb"^==== START logs for container .*?(?:==== END logs for container [^\n]* ====[ \t\r]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_TEXTS = {
    re.compile(rb"(NAMESPACE +)?NAME +[A-Z]"): (
        "a table of `kubectl get`: pass what `kubectl get nodes,pods --all-namespaces -o json` prints"
    ),
    re.compile(rb"Name: +\S+\r?\n(Namespace|Roles|Labels|Priority):"): (
        "the output of `kubectl describe`: pass what `kubectl get nodes,pods --all-namespaces -o json` prints"
    ),
    re.compile(rb"(Kubernetes control plane|Kubernetes master).* is running at "): (
        "the output of `kubectl cluster-info`: pass that of `kubectl cluster-info dump --all-namespaces`"
    ),
}
"""Outputs for people, which have too little to answer from."""
_LOGS_START = b"==== START logs for container "

SIMULATOR: Mapping[str, Kind] = {
    "pods": kinds.POD,
    "nodes": kinds.NODE,
    "pvs": kinds.PERSISTENT_VOLUME,
    "pvcs": kinds.PERSISTENT_VOLUME_CLAIM,
    "storageClasses": kinds.STORAGE_CLASS,
    "priorityClasses": kinds.PRIORITY_CLASS,
    "namespaces": kinds.NAMESPACE,
}
"""The lists in an export of kube-scheduler-simulator (ResourcesForSnap of simulator/snapshot)."""
_APPLIED, _DELETED = ("applied_objs", "created_objs"), "deleted_objs"
_TRACE_FIELDS = {"version", "config", "index"}
_MSGPACK_MAP = range(0x80, 0x90)
_YAML_KEY = re.compile(r"^([a-zA-Z]+):", re.MULTILINE)


def without_logs(content: bytes) -> bytes:
    """A dump of `kubectl cluster-info dump` without the logs of containers. Objects stay on their lines."""
    if _LOGS_START not in content:
        return content
    return _LOGS.sub(lambda logs: b"\n" * logs[0].count(b"\n"), content)


def text_for_people(content: bytes) -> str:
    """What a text is that has no objects, and the command whose output has them; "" for any other content."""
    return next((what for pattern, what in _TEXTS.items() if pattern.match(content)), "")


def as_json(content: bytes) -> bytes:
    """A trace of SimKube in msgpack as JSON; any other content as it is."""
    if not content or content[0] not in _MSGPACK_MAP or b"events" not in content:
        return content
    try:
        return encode(msgspec.msgpack.decode(content))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return content


def exported(raw: bytes | memoryview) -> Iterator[Exported] | None:
    """The objects in another tool's file, which is a JSON object without `kind`; None for any other JSON."""
    try:
        fields = _fields.decode(raw)
        if "events" in fields and fields.keys() & _TRACE_FIELDS:
            return _trace(_events.decode(fields["events"]))
        lists = [name for name in SIMULATOR if name in fields]
        if {"pods", "nodes"} <= set(lists):
            return _simulator({name: _list.decode(fields[name]) or [] for name in lists})
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    return None


def named(content: bytes) -> str:
    """What another tool's file is, which is read as a cluster; "" for any other content."""
    content = in_utf_8(content)
    if content.startswith(GZIP):
        return "a compressed file, such as a saved snapshot"
    if content[TAR_AT : TAR_AT + len(TAR)] == TAR:
        return "a tar archive, such as those of must-gather"
    if _LOGS_START in content:
        return "the output of `kubectl cluster-info dump`"
    try:
        fields = _fields.decode(as_json(content))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        fields = {name: msgspec.Raw(b"") for name in re.findall(_YAML_KEY, content.decode(errors="replace"))}
    if "kind" in fields:
        return ""
    if "events" in fields and fields.keys() & _TRACE_FIELDS:
        return "a trace of SimKube"
    return "an export of kube-scheduler-simulator" if {"pods", "nodes"} <= fields.keys() else ""


def _simulator(lists: Mapping[str, list[msgspec.Raw]]) -> Iterator[Exported]:
    for name, items in lists.items():
        kind = SIMULATOR[name]
        for item in items:
            yield (kind.api_version, kind.kind), bytes(item), True


def _trace(events: list[dict[str, Any]]) -> Iterator[Exported]:
    """The objects that a trace applies and deletes, in the order of time."""
    for event in events:
        for field in _APPLIED:
            for obj in event.get(field) or ():
                yield ("", ""), encode(obj), True
        for obj in event.get(_DELETED) or ():
            yield ("", ""), encode(obj), False


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw] | None)
_events = msgspec.json.Decoder(list[dict[str, Any]])
