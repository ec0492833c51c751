"""Named formats and their validation. Mirrors Kubernetes' pkg/cel/library/format.go."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

from bayplan.core.api import labels
from bayplan.core.devices.cel.library.quantities import reads
from bayplan.core.devices.cel.library.urls import parse
from bayplan.core.devices.cel.values import ABSENT, Format, Optional

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d{2}:\d{2})", re.ASCII)
_LABEL_RULE = "must consist of lower case alphanumeric characters or '-', and must start and end with an"
_RULES = {
    _LABEL: f"a lowercase RFC 1123 label {_LABEL_RULE} alphanumeric character",
    _LABEL_1035: f"a DNS-1035 label {_LABEL_RULE} alphabetic and an alphanumeric character",
    labels.SUBDOMAIN: labels.SUBDOMAIN_RULE,
}


def _name(syntax: re.Pattern[str], longest: int, text: str) -> list[str]:
    problems = [f"must be no more than {longest} bytes"] if len(text.encode()) > longest else []
    if syntax.fullmatch(text):
        return problems
    dotted = syntax is _LABEL and labels.SUBDOMAIN.fullmatch(text)
    return [*problems, "must not contain dots" if dotted else _RULES[syntax]]


def _prefix(validate: Callable[[str], list[str]], text: str) -> list[str]:
    """Validate the prefix of a generated name, which can end in a dash."""
    return validate(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    leap = f"2000{text[4:]}" if text.startswith("0000") else str(text)  # Python has no year 0, a leap year
    return reads(date.fromisoformat, leap)


def _is_date_time(text: str) -> bool:
    day, t, time = text.lower().partition("t")
    return bool(t) and _is_date(day) and _TIME.fullmatch(time) is not None


def _rule(problem: str, right: Callable[[str], Any], text: str) -> list[str]:
    return [] if right(text) else [problem]


_DNS_1123, _SUBDOMAIN, _DNS_1035 = (
    partial(_name, syntax, longest) for syntax, longest in ((_LABEL, 63), (labels.SUBDOMAIN, 253), (_LABEL_1035, 63))
)
_FORMATS = {
    "dns1123Label": Format("DNS1123Label", _DNS_1123, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _SUBDOMAIN, 60),
    "dns1035Label": Format("DNS1035Label", _DNS_1035, 30),
    "qualifiedName": Format("QualifiedName", lambda text: list(labels.label_key_errors(text)), 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", partial(_prefix, _DNS_1123), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", partial(_prefix, _SUBDOMAIN), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", partial(_prefix, _DNS_1035), 30),
    "labelValue": Format("LabelValue", lambda text: list(labels.label_value_errors(text)), 40),
    "uri": Format("URI", partial(_rule, "invalid URI for request", partial(reads, parse)), 1103),
    "uuid": Format("uuid", partial(_rule, "does not match the UUID format", _UUID.fullmatch), 70),
    "byte": Format("byte", partial(_rule, "invalid base64", _BASE64.fullmatch), 84),
    "date": Format("date", partial(_rule, "invalid date", _is_date), 71),
    "datetime": Format("datetime", partial(_rule, "invalid datetime", _is_date_time), 71),
}


def _validate(given: Format, text: str) -> Optional:
    problems = given.validate(text)
    return Optional(True, problems) if problems else ABSENT


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "format.named": lambda name: Optional(True, _FORMATS[name]) if name in _FORMATS else ABSENT,
    "validate": _validate,
    **{f"format.{name}": partial(lambda each: each, each) for name, each in _FORMATS.items()},
}
