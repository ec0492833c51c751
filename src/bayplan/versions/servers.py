"""Which version a cluster has, by what its API server says of itself in `/version`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.versions.table import NEWEST, OLDEST, VERSIONS, Version

_GIT_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?!\d)")
_NUMBER = re.compile(r"\d{1,4}")


@dataclass(frozen=True, slots=True)
class Followed:
    """The version that Bayplan follows for a cluster. `note` says in one line why it isn't the cluster's own."""

    version: Version
    note: str = ""


def version_followed(info: object) -> Followed:
    """The version to follow for the object of `/version`: `gitVersion`, else `major` and `minor`.

    Both may have suffixes of vendors, such as v1.36.2-eks-abc or 36+. What can't be read is taken for the oldest known
    version.
    """
    found = _numbers(info) if isinstance(info, Mapping) else None
    if found is None:
        return Followed(OLDEST, f"the API server doesn't say which version it has: Kubernetes {OLDEST} is assumed")
    version = "{}.{}".format(*found)
    if version in VERSIONS:
        return Followed(version)
    if found < _ordered(OLDEST):
        return Followed(
            OLDEST, f"the cluster has Kubernetes {version}: Bayplan decides as {OLDEST}, the oldest it knows"
        )
    return Followed(NEWEST, f"the cluster has Kubernetes {version}: Bayplan decides as {NEWEST}, the newest it knows")


def _numbers(info: Mapping[Any, Any]) -> tuple[int, int] | None:
    match = _GIT_VERSION.match(str(info.get("gitVersion") or "").strip())
    if match:
        return int(match[1]), int(match[2])
    major, minor = (_NUMBER.match(str(info.get(name) or "").strip()) for name in ("major", "minor"))
    return (int(major[0]), int(minor[0])) if major and minor else None


def _ordered(version: Version) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
