"""`--feature-gates`: the feature gates of Kubernetes 1.36 (pkg/features/kube_features.go and libraries), and the values
that Bayplan supports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files

import msgspec

from bayplan.config.suggestions import did_you_mean

_gates = msgspec.json.decode(
    files(__package__).joinpath("run_feature_gates.json").read_bytes(), type=dict[str, frozenset[str]]
)

ON = _gates["on"]
"""Gates of the scheduler that are on by default. They are always on in Bayplan."""

OFF = _gates["off"]
"""Gates of the scheduler that are off by default. Bayplan doesn't support them yet."""

WORKLOADS, GANGS = "GenericWorkload", "GangScheduling"
SWITCHES: dict[str, tuple[str, ...]] = {
    WORKLOADS: (),
    GANGS: ("GangScheduling",),
    "TopologyAwareWorkloadScheduling": ("TopologyPlacementGenerator", "PodGroupPodsCount"),
    "WorkloadAwarePreemption": ("WorkloadAwarePreemption",),
}
"""Gates that are off by default and can be enabled, with the plugins that each adds to the default ones."""

NEEDS = {GANGS: WORKLOADS, "TopologyAwareWorkloadScheduling": WORKLOADS, "WorkloadAwarePreemption": GANGS}
"""Gates that require another one."""

OTHERS = _gates["others"]
"""Gates of other components. They are accepted, so that you can pass the same flags to all components."""

KNOWN = ON | OFF | SWITCHES.keys() | OTHERS
_VALUES = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""Mirrors Go's strconv.ParseBool."""


@dataclass(slots=True)
class Gates:
    """The result of --feature-gates: errors, warnings, and the plugins to add to the default ones."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    plugins: list[str] = field(default_factory=list)


def read_gates(values: Iterable[str]) -> Gates:
    """Read `A=true,B=false,...` (also `kube:A=true`). The last value of a gate applies."""
    gates = Gates()
    problems, warnings = gates.problems, gates.warnings
    switched = dict.fromkeys(SWITCHES, False)
    for name, text in _pairs(values):
        value = _VALUES.get(text)
        if name not in KNOWN:
            problems.append(f"unknown feature gate {name!r}{did_you_mean(name, KNOWN)}")
        elif value is None:
            problems.append(f"{name}: expected true or false, got {text!r}")
        elif name in ON and not value:
            problems.append(f"{name}=false: this feature can't be disabled")
        elif name in OFF and value:
            problems.append(f"{name}=true: this feature is not supported yet")
        elif name in SWITCHES:
            switched[name] = value
    on = [name for name, value in switched.items() if value]
    problems += [f"{name}=true: requires {NEEDS[name]}=true" for name in on if NEEDS.get(name, name) not in on]
    if on and not switched[GANGS] and not problems:
        warnings += [
            f"{name} has no effect without {GANGS}=true, which schedules the pods of a PodGroup together" for name in on
        ]
    elif on and not problems:
        gates.plugins += [plugin for name in on for plugin in SWITCHES[name]]
    return gates


def _pairs(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    for each in ",".join(values).split(","):
        if each.strip():
            name, _, value = each.strip().removeprefix("kube:").partition("=")
            yield name.strip(), value.strip()
