"""Rules for ports. Mirrors apimachinery's pkg/util/validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.api.field_errors import FieldError, invalid

PORT_RULE = "must be between 1 and 65535, inclusive"


def validate_port_number(port: int, where: str) -> Iterator[FieldError]:
    """Rules for the number of a port."""
    if not 1 <= port <= 65535:
        yield invalid(where, port, PORT_RULE)


def validate_port_name(name: str, where: str) -> Iterator[FieldError]:
    """Rules for the name of a port."""
    if len(name) > 15:
        yield invalid(where, name, "must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield invalid(where, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        yield invalid(where, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield invalid(where, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        yield invalid(where, name, "must not begin or end with a hyphen")
