"""FeatureGates: which features are on: the value that plugins and the API server read their switches from.

    gates_of("1.37").but("SomeGate").enabled("SomeGate")

It is immutable, so two schedulers of two versions run in one process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from bayplan.core.versions.table import CHANGES, GATES, OLDEST, VERSIONS, ChangeState, Maturity, Version

ALL = {"AllAlpha": Maturity.ALPHA, "AllBeta": Maturity.BETA}
"""Gates that stand for all gates of a maturity."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """A version of Kubernetes and what is on in it: feature gates, and changes without a gate. `on` has their names."""

    version: Version
    on: frozenset[str]

    def enabled(self, name: str) -> bool:
        """Whether a gate is on, or a change has happened. Raises KeyError for a name that the table lacks."""
        if name not in GATES and name not in CHANGES:
            raise KeyError(name)
        return name in self.on

    def but(self, *on: str, off: tuple[str, ...] = ()) -> FeatureGates:
        """The same with other values of some gates or changes."""
        return replace(self, on=(self.on | set(on)) - set(off))

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plugins that gates add to the default ones, in order."""
        names = [name for gate in GATES.values() if gate.name in self.on for name in gate.plugins_in(self.version)]
        return tuple(dict.fromkeys(names))

    @property
    def chosen(self) -> dict[str, bool]:
        """The gates whose value isn't the default one of the version."""
        differing = self.on ^ gates_of(self.version).on
        return {name: name in self.on for name in sorted(differing) if name in GATES}


@cache
def gates_of(version: Version) -> FeatureGates:
    """What is on in a version by default. Raises KeyError for a version that isn't known."""
    number = VERSIONS.index(version) if version in VERSIONS else None
    if number is None:
        raise KeyError(version)
    on = {gate.name for gate in GATES.values() if (stage := gate.stage(version)) is not None and stage.default}
    on |= {
        change.name
        for change in CHANGES.values()
        if change.state is ChangeState.FOLLOWED and VERSIONS.index(change.since) <= number
    }
    return FeatureGates(version, frozenset(on))


def with_gangs(gates: FeatureGates) -> FeatureGates:
    """The same with what schedules the pods of a PodGroup together, and since 1.37 those of a tree of groups."""
    names = [*_GANGS, *GATES[_COMPOSITES].needs, _COMPOSITES]
    if GATES[_COMPOSITES].stage(gates.version) is None:
        names = _GANGS
    return gates.but(*(name for name in names if GATES[name].stage(gates.version) is not None))


def of_gangs(version: Version) -> list[str]:
    """What --feature-gates has for a version in which the pods of a PodGroup are scheduled together."""
    return [f"{name}=true" for name in _GANGS if GATES[name].stage(version) is not None]


_GANGS = ["GenericWorkload", "GangScheduling"]
_COMPOSITES = "CompositePodGroup"


def of_composites() -> Version:
    """The first version that has CompositePodGroups."""
    return next(version for version in VERSIONS if GATES[_COMPOSITES].stage(version) is not None)


DEFAULT_GATES = gates_of(OLDEST)
"""What is on where nothing says which version applies."""
