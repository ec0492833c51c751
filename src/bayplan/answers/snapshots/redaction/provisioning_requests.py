"""The fields of ProvisioningRequests that a redacted snapshot or recording keeps: all that their answers rest on."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from bayplan.answers.snapshots.redaction.names import Names
from bayplan.answers.snapshots.redaction.rules import CONDITIONS, custom, each, fields, name
from bayplan.core.api import provisioning

_PARAMETER = re.compile(r"[0-9]+|true|false")
_HELD_DETAIL = re.compile(r"held-[0-9]+(\.[0-9]+)?")


def _parameter(value: Any, _: Names) -> Any:
    """A number or a switch. Any other text is as wrong as the one in its place."""
    return value if isinstance(value, str) and _PARAMETER.fullmatch(value) else "invalid"


def _details(value: Any, names: Names) -> Any:
    """Where room is held: how many places on which nodes, in JSON."""
    if not isinstance(value, dict):
        return None
    return {detail: new for detail, text in value.items() if (new := _held(detail, text, names)) is not None}


def _held(detail: str, text: Any, names: Names) -> str | None:
    if not _HELD_DETAIL.fullmatch(detail) or not isinstance(text, str):
        return None
    try:
        nodes = msgspec.json.decode(text, type=dict[str, int])
    except msgspec.MsgspecError:  # nothing reads it either
        return None
    return msgspec.json.encode({names.new("node", node): count for node, count in nodes.items()}).decode()


PROVISIONING_REQUEST_FIELDS = custom(
    "provisioningrequest",
    provisioning.KIND,
    spec=fields(
        provisioningClassName=name("provisioningclass"),
        podSets=each(fields("count", podTemplateRef=fields(name=name("podtemplate")))),
        parameters=fields(
            **dict.fromkeys(
                (provisioning.VALID_UNTIL, provisioning.NO_RETRY, provisioning.PREEMPTION, provisioning.BOOKING),
                _parameter,
            )
        ),
    ),
    status=fields(conditions=CONDITIONS, provisioningClassDetails=_details),
)
