"""Formats with names, and what is wrong with a text by them. Mirrors Kubernetes' pkg/cel/library/format.go."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

from bayplan.api import labels
from bayplan.plugins.dynamic_resources.cel.library.urls import request_problem
from bayplan.plugins.dynamic_resources.cel.values import ABSENT, Format, Optional

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)
_DATE_TIME_SIZE, _UUID_SIZE, _BASE64_SIZE, _URL_SIZE = 71, 70, 84, 1103
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL.pattern}')"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035.pattern}')"
)


def _too_long(text: str, longest: int) -> list[str]:
    return [f"must be no more than {longest} bytes"] if len(text.encode()) > longest else []


def _label(text: str) -> list[str]:
    if _LABEL.fullmatch(text):
        return _too_long(text, 63)
    dotted = labels.SUBDOMAIN.fullmatch(text)
    return [*_too_long(text, 63), "must not contain dots" if dotted else _LABEL_RULE]


def _subdomain(text: str) -> list[str]:
    wrong = [] if labels.SUBDOMAIN.fullmatch(text) else [labels.SUBDOMAIN_RULE]
    return [*_too_long(text, 253), *wrong]


def _label_1035(text: str) -> list[str]:
    return [*_too_long(text, 63), *([] if _LABEL_1035.fullmatch(text) else [_LABEL_1035_RULE])]


def _prefix(validate: Callable[[str], list[str]], text: str) -> list[str]:
    """A name that something will be put behind: it may end in a dash."""
    return validate(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    problem = request_problem(text)
    return [problem] if problem else []


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    year = text[:4] if text[:4] != "0000" else "2000"  # which Python lacks, and which is a leap year too
    try:
        date.fromisoformat(year + text[4:])
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, *times = text.lower().split("t")
    match = _TIME.fullmatch(times[0]) if times and _is_date(day) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _saying(problem: str, right: Callable[[str], Any], text: str) -> list[str]:
    return [] if right(text) else [problem]


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", _label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _label_1035, 30),
    "qualifiedName": Format("QualifiedName", lambda text: list(labels.label_key_errors(text)), 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", partial(_prefix, _label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", partial(_prefix, _subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", partial(_prefix, _label_1035), 30),
    "labelValue": Format("LabelValue", lambda text: list(labels.label_value_errors(text)), 40),
    "uri": Format("URI", _uri, _URL_SIZE),
    "uuid": Format("uuid", partial(_saying, "does not match the UUID format", _UUID.fullmatch), _UUID_SIZE),
    "byte": Format("byte", partial(_saying, "invalid base64", _BASE64.fullmatch), _BASE64_SIZE),
    "date": Format("date", partial(_saying, "invalid date", _is_date), _DATE_TIME_SIZE),
    "datetime": Format("datetime", partial(_saying, "invalid datetime", _is_date_time), _DATE_TIME_SIZE),
}


def _named(name: str) -> Optional:
    return Optional(True, _FORMATS[name]) if name in _FORMATS else ABSENT


def _validate(given: Format, text: str) -> Optional:
    problems = given.validate(text)
    return Optional(True, problems) if problems else ABSENT


def _itself(given: Format) -> Format:
    return given


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "format.named": _named,
    "validate": _validate,
    **{f"format.{name}": partial(_itself, each) for name, each in _FORMATS.items()},
}
