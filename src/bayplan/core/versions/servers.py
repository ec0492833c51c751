"""Which version a cluster has, by what its API server says of itself in `/version`.

A version that isn't known is followed as the nearest one that is, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.core.versions.table import NEWEST, OLDEST, VERSIONS, Version

_GIT_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?!\d)")
_NUMBER = re.compile(r"\d{1,4}")


@dataclass(frozen=True, slots=True)
class FollowedVersion:
    """The version that Bayplan follows for a cluster. `note` says in one line why it isn't the cluster's own."""

    version: Version
    note: str = ""


def version_text(info: object) -> str:
    """What the object of `/version` says: `gitVersion`, else `major` and `minor` as in 1.36; "" if it says neither.

    Both may have suffixes of vendors, such as v1.36.2-eks-abc or 36+.
    """
    if not isinstance(info, Mapping):
        return ""
    text = str(info.get("gitVersion") or "").strip()
    if _GIT_VERSION.match(text):
        return text
    major, minor = (_NUMBER.match(str(info.get(name) or "").strip()) for name in ("major", "minor"))
    return f"{major[0]}.{minor[0]}" if major and minor else ""


def version_followed(text: str, source: str = "the API server") -> FollowedVersion:
    """The version to follow for what `version_text` returned; the oldest known one if that is none.

    `source`: what doesn't say its version then, for the note.
    """
    match = _GIT_VERSION.match(text)
    if match is None:
        return FollowedVersion(OLDEST, f"{source} doesn't say which version it has: Kubernetes {OLDEST} is assumed")
    found = int(match[1]), int(match[2])
    version = "{}.{}".format(*found)
    if version in VERSIONS:
        return FollowedVersion(version)
    if found < _ordered(OLDEST):
        return FollowedVersion(
            OLDEST, f"the cluster has Kubernetes {version}: Bayplan decides as {OLDEST}, the oldest it knows"
        )
    return FollowedVersion(
        NEWEST, f"the cluster has Kubernetes {version}: Bayplan decides as {NEWEST}, the newest it knows"
    )


def _ordered(version: Version) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
