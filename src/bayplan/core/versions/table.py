"""The table of Kubernetes versions, read from `kubernetes.json`: feature gates, and changes without a gate.

Facts about gates mirror pkg/features/kube_features.go and, from 1.37 on, the scheduler's own list of features.
"""

from __future__ import annotations

from enum import StrEnum
from importlib.resources import files
from typing import Literal

import msgspec

Version = str
"""A minor version of Kubernetes, such as `1.36`."""


class Maturity(StrEnum):
    """How stable a feature is."""

    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class Stage(msgspec.Struct, frozen=True):
    """A gate in one version. The value of a locked one can't be changed."""

    maturity: Maturity
    default: bool
    locked: bool


class Gate(msgspec.Struct, frozen=True, rename="camel"):
    """A feature gate of the scheduler. `stages` lacks the versions that don't have it."""

    name: str
    stages: dict[Version, str]
    """A maturity, followed by `on` or `locked` (which is on, too) unless the gate is off by default."""
    switches: str
    """Which plugin or rule it switches."""
    needs: tuple[str, ...] = ()
    """Gates that must be on if this one is."""
    plugins: tuple[str, ...] | dict[Version, tuple[str, ...]] = ()
    """Plugins that it adds to the default ones; they may depend on the version."""
    pull_requests: tuple[int, ...] = ()
    """What added, promoted, changed or removed it after the oldest version."""
    fixed: str | dict[Version, str] = ""
    """Why Bayplan has the default value only; empty if both values are followed. It may depend on the version."""

    def stage(self, version: Version) -> Stage | None:
        """The gate in a version; None if that version doesn't have it."""
        if version not in self.stages:
            return None
        maturity, _, value = self.stages[version].partition(" ")
        return Stage(Maturity(maturity), bool(value), value == "locked")

    def fixed_in(self, version: Version) -> str:
        """Why Bayplan has the default value only in a version; empty if both values are followed."""
        return self.fixed.get(version, "") if isinstance(self.fixed, dict) else self.fixed

    def plugins_in(self, version: Version) -> tuple[str, ...]:
        """The plugins that it adds to the default ones in a version."""
        return self.plugins.get(version, ()) if isinstance(self.plugins, dict) else self.plugins


class ChangeState(StrEnum):
    """What Bayplan does about a change."""

    FOLLOWED = "followed"
    NOT_APPLICABLE = "not applicable"
    NOT_FOLLOWED = "not followed"


Affected = Literal["decisions", "messages", "events", "metrics", "flags", "configuration", "API"]


class VersionChange(msgspec.Struct, frozen=True, rename="camel"):
    """A change of kube-scheduler's behaviour that no gate switches."""

    name: str
    since: Version
    pull_requests: tuple[int, ...]
    affects: tuple[Affected, ...]
    effect: str
    state: ChangeState
    why: str = ""
    """Why it isn't followed, or doesn't apply."""
    verified: Literal["", "recorded", "unit tests", "read"] = ""
    """By recordings of kube-scheduler, by the tables of upstream's unit tests, or by reading the sources only."""
    test: str = ""
    """The test that shows it: a path from the root of the project, which may end with `::name`."""


class GoneMetric(msgspec.Struct, frozen=True, rename="camel"):
    """A metric of a component `of` Kubernetes that a version doesn't have any more, and the one that replaces it."""

    name: str
    of: str
    gone_in: Version
    instead: str


class _Table(msgspec.Struct, frozen=True):
    versions: dict[Version, str]
    gates: tuple[Gate, ...]
    changes: tuple[VersionChange, ...]
    metrics: tuple[GoneMetric, ...]
    others: tuple[str, ...]


_table = msgspec.json.decode(files(__package__).joinpath("kubernetes.json").read_bytes(), type=_Table)

RELEASES = _table.versions
"""The known versions in order, with the release that each stands for, such as `v1.36.2`."""

VERSIONS = tuple(RELEASES)
OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]

GATES = {gate.name: gate for gate in _table.gates}
"""The gates of the scheduler by name."""

OTHER_COMPONENTS = frozenset(_table.others)
"""Gates of other components. They are accepted, so that you can pass the same flags to all components."""

GONE_METRICS = _table.metrics
"""Metrics about scheduling that end, or change their name."""

CHANGES = {change.name: change for change in _table.changes}
"""The changes without a gate by name."""
