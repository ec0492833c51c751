"""Reads audit events (audit.k8s.io/v1) from files in every shape that clouds export them in.

They are JSON lines as kube-apiserver writes them, or lists, or they are wrapped: by CloudWatch (EKS), Azure Monitor
(AKS), or log shippers. GKE doesn't export the events themselves: `gke_event` makes them from Cloud Audit Logs.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import SEEK_END, BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from bayplan.answers.history.following import date_of
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.sources.problems import Problems
from bayplan.foundations.bounded_files import GZIP, Allowance, UnusableFileError, is_dense

HTTP_FAILURE = 300
"""The lowest status of a reply that says that nothing was done."""
LONGEST_LINE = 64 * 2**20
"""Bytes of a line. A file in one piece may be as large as this, too."""
_CHUNK = 2**18
_MOST_BAD_LINES = 100_000
"""A file with few lines of JSON is given up after so many others."""
_LISTS = ("items", "events", "logEvents", "records", "results", "entries", "value")
"""The fields in which exports have lists of events."""
_TEXTS = ("message", "@message", "log", "log_s", "textPayload")
_OBJECTS = ("properties", "jsonPayload", "_source", "fields", "kubernetes_audit")
"""The fields in which exports have one event, as a text or an object."""
_GKE_METHOD = re.compile(r"io\.k8s\.(?P<group>[\w.-]+)\.(?P<version>v\d\w*)\.(?P<rest>[\w.]+)")


class AuditEvent(msgspec.Struct):
    """A request that the API server has carried out, or refused."""

    time: datetime
    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    code: int = 0
    uri: str = ""
    request: Any = None
    """An object; a list for a JSON patch."""
    response: dict[str, Any] | None = None
    id: str = ""
    user: str = ""
    """The name of the client."""

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the request, where the log has its URI."""
        return dict(parse_qsl(self.uri.partition("?")[2], keep_blank_values=True))

    @property
    def failed(self) -> bool:
        """Whether the API server has refused the request."""
        response = self.response or {}
        return self.code >= HTTP_FAILURE or (response.get("kind"), response.get("status")) == ("Status", "Failure")

    @property
    def is_dry_run(self) -> bool:
        """Whether the request changed nothing, as its client wanted."""
        options = self.request if isinstance(self.request, dict) else {}
        nested = options.get("deleteOptions")  # of an Eviction
        given = (options, nested if isinstance(nested, dict) else {})
        return "dryRun" in self.parameters or any(options.get("dryRun") for options in given)


def audit_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, with those in folders."""
    for path in paths:
        yield from sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def events_in(path: Path, problems: Problems) -> Iterator[AuditEvent]:
    """The events of a file, in its order. Raises HistoryError if it can't be opened."""
    for where, value in _values(path, problems):
        found = False
        for event in _unwrapped(value, where, problems):
            found = True
            if event is not None:
                yield event
        if not found:
            problems.add("not an audit event of audit.k8s.io/v1: left out", where)


def _values(path: Path, problems: Problems) -> Iterator[tuple[str, Any]]:
    """The JSON values of a file, with their places."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(len(GZIP)) == GZIP
            raw.seek(0)
            inflated = _Inflated(raw, Allowance(str(path), path.stat().st_size))
            yield from _lines(str(path), BufferedReader(inflated) if compressed else raw, problems)
            if inflated.problem:
                problems.add(f"{path} {inflated.problem}: its rest is missing")
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror or error}") from None
    except UnusableFileError as error:
        problems.add(f"{error}: its rest is missing")


class _Inflated(RawIOBase):
    """The contents of a gzip file, up to where it is cut off or damaged. `problem`: what is wrong with it, if read."""

    def __init__(self, raw: BufferedReader, allowance: Allowance) -> None:
        self.problem = ""
        self._allowance = allowance
        self._raw = raw
        self._inflate = zlib.decompressobj(wbits=31)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes a memoryview
        while True:
            compressed = self._left or self._raw.read(_CHUNK)
            if not compressed:
                self.problem = self.problem or ("" if self._inflate.eof else "is cut off")
                return 0
            if self._inflate.eof:  # the next member
                self._inflate = zlib.decompressobj(wbits=31)
            try:
                part = self._inflate.decompress(compressed, len(buffer))
            except zlib.error as error:
                self.problem = f"is damaged ({error})"
                self._raw.seek(0, SEEK_END)
                return 0
            self._left = self._inflate.unconsumed_tail or self._inflate.unused_data
            if part:
                self._allowance.take(len(part))
                buffer[: len(part)] = part
                return len(part)


def _lines(name: str, file: BufferedReader, problems: Problems) -> Iterator[tuple[str, Any]]:
    first = file.readline(LONGEST_LINE)
    while first and not first.strip():
        first = file.readline(LONGEST_LINE)
    if first.strip() in {b"{", b"["} or (first.lstrip()[:1] in {b"[", b"{"} and _decoded(first) is None):
        whole = first + file.read(LONGEST_LINE)
        value = _decoded(whole)
        if value is not None:
            yield name, value
            return
        lines = iter(whole.splitlines(keepends=True))
    else:
        lines = chain((first,), iter(lambda: file.readline(LONGEST_LINE), b""))
    bad = 0
    for number, line in enumerate(lines, start=1):
        if bad > _MOST_BAD_LINES and bad > number / 2:
            problems.add("most lines are not JSON: the rest of the file is left out", name)
            return
        where = f"{name} line {number}"
        start = line.find(b"{")
        if not line.strip():
            continue
        value = _decoded(line[start:]) if start >= 0 else None
        if value is None:
            bad += 1
            cut = start >= 0 and not line.endswith(b"\n")
            problems.add("a line is cut off: left out" if cut else "a line is not JSON: left out", where)
        else:
            yield where, value


def _decoded(text: bytes | str) -> Any:
    """The value of a JSON text; None if it is none."""
    if isinstance(text, bytes) and is_dense(text):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _unwrapped(value: Any, where: str, problems: Problems) -> Iterator[AuditEvent | None]:
    """The events in a value. None stands for one that is of no use, such as an earlier stage of a request."""
    if isinstance(value, list):
        for item in value:
            yield from _unwrapped(item, where, problems)
    if not isinstance(value, dict):
        return
    if "auditID" in value and "verb" in value:
        yield _event(value, where, problems)
    elif "AuditId" in value and "Verb" in value:
        yield _event(_aks_columns(value), where, problems)
    elif isinstance(value.get("protoPayload"), dict):
        yield gke_event(value, where, problems)
    elif "field" in value and "value" in value:  # a cell of CloudWatch Logs Insights
        if value["field"] == "@message" and isinstance(value["value"], str):
            yield from _unwrapped(_decoded(value["value"]), where, problems)
    else:
        for key in _LISTS:
            if isinstance(value.get(key), list):
                yield from _unwrapped(value[key], where, problems)
                return
        for key in (*_TEXTS, *_OBJECTS):
            inner = value.get(key)
            if isinstance(inner, str):
                inner = _decoded(inner[inner.find("{") :]) if "{" in inner else None
            if isinstance(inner, dict):
                yield from _unwrapped(inner, where, problems)
                return


def _event(value: dict[str, Any], where: str, problems: Problems) -> AuditEvent | None:
    """An event of audit.k8s.io/v1; None for an earlier stage, and for requests that name no resource."""
    if value.get("stage", "ResponseComplete") != "ResponseComplete":
        return None
    ref = value.get("objectRef")
    if not isinstance(ref, dict):
        return None
    time = date_of(value.get("stageTimestamp")) or date_of(value.get("requestReceivedTimestamp"))
    if time is None:
        problems.add("an event has no valid stageTimestamp: left out", where)
        return None
    status = value.get("responseStatus")
    code = status.get("code") if isinstance(status, dict) else None
    return AuditEvent(
        time,
        str(value["verb"]),
        str(ref.get("apiGroup") or ""),
        str(ref.get("resource") or ""),
        str(ref.get("subresource") or ""),
        str(ref.get("namespace") or ""),
        str(ref.get("name") or ""),
        code if isinstance(code, int) else 0,
        str(value.get("requestURI") or ""),
        _request(value.get("requestObject")),
        _object(value.get("responseObject")),
        str(value["auditID"]),
        _user(value.get("user")),
    )


def _user(value: Any) -> str:
    return str(_mapping(value).get("username") or "")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(value: Any) -> dict[str, Any] | None:
    """An object, without the type that GKE adds."""
    return {key: item for key, item in value.items() if key != "@type"} if isinstance(value, dict) else None


def _request(value: Any) -> Any:
    return value if isinstance(value, list) else _object(value)


_AKS = {
    "AuditId": "auditID",
    "Verb": "verb",
    "Stage": "stage",
    "RequestUri": "requestURI",
    "ObjectRef": "objectRef",
    "RequestObject": "requestObject",
    "ResponseObject": "responseObject",
    "ResponseStatus": "responseStatus",
    "User": "user",
    "RequestReceivedTime": "requestReceivedTimestamp",
    "StageReceivedTime": "stageTimestamp",
    "TimeGenerated": "requestReceivedTimestamp",
}
"""The columns of the tables AKSAudit and AKSAuditAdmin -> the fields of an event"""


def _aks_columns(value: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for column, field in _AKS.items():
        found = value.get(column)
        if isinstance(found, str) and found.startswith("{"):
            found = _decoded(found)
        if found is not None:
            event.setdefault(field, found)
    return event


def gke_event(entry: dict[str, Any], where: str, problems: Problems) -> AuditEvent | None:
    """The event that a LogEntry of Cloud Audit Logs stands for; None if it isn't about an object of Kubernetes.

    `methodName` is `io.k8s.core.v1.pods.binding.create`, and `resourceName`
    `core/v1/namespaces/default/pods/web/binding`.
    """
    payload = entry["protoPayload"]
    method = _GKE_METHOD.fullmatch(str(payload.get("methodName")))
    if method is None:
        return None
    time = date_of(entry.get("timestamp"))
    if time is None:
        problems.add("an entry has no valid timestamp: left out", where)
        return None
    parts = method["rest"].split(".")
    resource, subresource, verb = parts[0], ".".join(parts[1:-1]), parts[-1]
    path = str(payload.get("resourceName") or "").split("/")[2:]
    namespace = ""
    if path[:1] == ["namespaces"] and len(path) > 2:
        namespace, path = path[1], path[2:]
    status = payload.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    group = "" if method["group"] == "core" else method["group"]
    return AuditEvent(
        time,
        verb,
        _GROUPS.get(group, group),
        resource,
        subresource,
        namespace,
        path[1] if len(path) > 1 else "",
        500 if code else 200,  # a code of google.rpc: 0 is success
        "",
        _request(payload.get("request")),
        _object(payload.get("response")),
        str(entry.get("insertId") or ""),
        _user({"username": _mapping(payload.get("authenticationInfo")).get("principalEmail")}),
    )


_GROUPS = {
    "storage": "storage.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "resource": "resource.k8s.io",
    "node": "node.k8s.io",
}
"""The short names of groups in `methodName` -> the groups"""
