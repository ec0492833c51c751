"""`--feature-gates` and `--emulated-version`: what users write, with all errors as lines for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bayplan.core.api.suggestions import did_you_mean, or_known
from bayplan.core.versions.gates import ALL, FeatureGates, gates_of
from bayplan.core.versions.table import GATES, OTHER_COMPONENTS, VERSIONS, Gate, Stage, Version

GANGS = "GangScheduling"
_VALUES = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""Mirrors Go's strconv.ParseBool."""


@dataclass(slots=True)
class ReadGates:
    """The result of --feature-gates: the gates, and errors and warnings. With errors, the gates mean nothing."""

    gates: FeatureGates
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def emulated_version(text: str) -> Version:
    """The version that `--emulated-version` names: `1.37`, `v1.37` or `kube=1.37`. Raises ValueError."""
    version = text.strip().removeprefix("kube=").removeprefix("v")
    if version not in VERSIONS:
        raise ValueError(f"unknown version {text!r}{or_known(version, VERSIONS)}")
    return version


def read_gates(values: Iterable[str], version: Version) -> ReadGates:
    """Read `A=true,B=false,...` (also `kube:A=true`). The last value of a gate applies.

    Mirrors featuregate.SetFromMap (k8s.io/component-base): AllAlpha and AllBeta apply to the gates that aren't named.
    """
    result = ReadGates(gates_of(version))
    known = {name: stage for name, gate in GATES.items() if (stage := gate.stage(version)) is not None}
    given: dict[str, bool] = {}
    for name, text in _pairs(values):
        value = _VALUES.get(text)
        if name not in known and name not in ALL and name not in OTHER_COMPONENTS:
            result.problems.append(_unknown(name, version, known))
        elif value is None:
            result.problems.append(f"{name}: expected true or false, got {text!r}")
        else:
            given[name] = value
    chosen = {name: value for name, value in given.items() if name in known}
    result.problems += [
        f"{name}={_text(value)}: {reason}"
        for name, value in chosen.items()
        if (reason := _refusal(GATES[name], known[name], value, version))
    ]
    for everything, value in given.items():
        if everything in ALL:
            chosen |= _all(everything, value, known, chosen, result)
    on = [name for name, value in chosen.items() if value]
    off = tuple(name for name, value in chosen.items() if not value)
    result.gates = result.gates.but(*on, off=off)
    result.problems += _unmet(result.gates, chosen)
    if not result.problems:
        result.warnings += _without_gangs(result.gates, chosen)
    return result


def _refusal(gate: Gate, stage: Stage, value: bool, version: Version) -> str:
    if value == stage.default:
        return ""
    if stage.locked:
        return f"this gate is locked to {_text(stage.default)} in Kubernetes {version}"
    why = gate.fixed_in(version)
    return f"not supported: {why}" if why else ""


def _all(
    everything: str,
    value: bool,
    known: Mapping[str, Stage],
    chosen: Mapping[str, bool],
    result: ReadGates,
) -> dict[str, bool]:
    """The gates that AllAlpha or AllBeta sets. Those that Bayplan can't set are one problem."""
    meant = [
        name
        for name, stage in known.items()
        if stage.maturity is ALL[everything] and name not in chosen and stage.default != value
    ]
    fixed = [name for name in meant if GATES[name].fixed_in(result.gates.version)]
    if fixed:
        names = ", ".join(f"{name}={_text(not value)}" for name in fixed)
        result.problems.append(
            f"{everything}={_text(value)}: Bayplan can't switch all of them: add {names}, or name the gates that you "
            "need"
        )
    return dict.fromkeys(meant, value)


def _unmet(gates: FeatureGates, chosen: Mapping[str, bool]) -> Iterator[str]:
    """Gates that need another one, if one of both was chosen."""
    for gate in GATES.values():
        if gate.name not in gates.on:
            continue
        for needed in gate.needs:
            exists = GATES[needed].stage(gates.version) is not None
            if exists and needed not in gates.on:
                if chosen.get(gate.name):
                    yield f"{gate.name}=true: requires {needed}=true"
                else:
                    yield f"{needed}=false: requires {gate.name}=false, which needs it"


def _without_gangs(gates: FeatureGates, chosen: Mapping[str, bool]) -> list[str]:
    """Gates about groups of pods that have no effect."""
    if GATES[GANGS].stage(gates.version) is None or GANGS in gates.on:
        return []
    return [
        f"{name} has no effect without {GANGS}=true, which schedules the pods of a PodGroup together"
        for name, value in chosen.items()
        if value and (name == "GenericWorkload" or "GenericWorkload" in GATES[name].needs)
    ]


def _unknown(name: str, version: Version, known: Mapping[str, Stage]) -> str:
    gate = GATES.get(name)
    if gate is not None:
        return f"{name}: Kubernetes {version} doesn't have this gate, {' and '.join(gate.stages)} does"
    return f"unknown feature gate {name!r}{did_you_mean(name, {*known, *ALL, *OTHER_COMPONENTS})}"


def _text(value: bool) -> str:
    return "true" if value else "false"


def _pairs(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    for each in ",".join(values).split(","):
        if each.strip():
            name, _, value = each.strip().removeprefix("kube:").partition("=")
            yield name.strip(), value.strip()
