"""Rules for names. Mirrors apimachinery's pkg/util/validation."""

from __future__ import annotations

import re
from functools import lru_cache

from bayplan.core.api.labels import SUBDOMAIN, SUBDOMAIN_RULE

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


@lru_cache(maxsize=8192)
def name_errors(name: str, rule: str) -> tuple[str, ...]:
    """Errors of a name under a rule: `subdomain`, `label`, `label1035` or `path`."""
    match rule:
        case "label" if "." in name:
            return ("must not contain dots",)
        case "label":
            return _named(name, _LABEL, 63, LABEL_RULE)
        case "label1035":
            return _named(name, _LABEL_1035, 63, LABEL_1035_RULE)
        case "path":
            if name in {".", ".."}:
                return (f"may not be '{name}'",)
            return tuple(f"may not contain '{character}'" for character in "/%" if character in name)
        case _:
            return _named(name, SUBDOMAIN, 253, SUBDOMAIN_RULE)


def _named(name: str, pattern: re.Pattern[str], limit: int, rule: str) -> tuple[str, ...]:
    long = (f"must be no more than {limit} bytes",) if len(name) > limit else ()
    return long if pattern.fullmatch(name) else (*long, rule)


def camel(name: str) -> str:
    """A name such as `pod_group` as the fields of JSON have it: `podGroup`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
