"""Reads recorded scenarios: a cluster, the pods to place, and what kube-scheduler 1.36 decided for each.

The README next to the files describes the format: one scenario a line.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api import kinds
from bayplan.core.api.objects import UndecodableObject, decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import (
    ConfigurationError,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    build_profile,
    parse_configuration,
)
from bayplan.core.config.types import PluginConfig
from bayplan.core.framework.profile import Profile
from bayplan.core.versions import CHANGES, OLDEST, VERSIONS, FeatureGates, read_gates
from bayplan.foundations.bounded_files import Allowance, UnusableFileError, inflating
from bayplan.testing.allocator_recordings import in_own_form

RECORDED_AT = datetime(2026, 7, 1, tzinfo=UTC)
"""The current time in a replay: after the release of kube-scheduler 1.36.2 and long after all times in scenarios."""
_LONGEST = 64 * 2**20
"""Bytes of a scenario."""


class UnreadableScenarios(ValueError):
    """A file is not a valid file of scenarios. The message names the file and the line."""


class RecordedStatus(msgspec.Struct, kw_only=True):
    """A status as recorded."""

    code: str = ""
    plugin: str = ""
    reasons: list[str] = []


class RecordedScores(msgspec.Struct):
    """The scores of one node: weighted, by plugin, and their sum."""

    total: int
    plugins: dict[str, int] = {}


class Preempted(msgspec.Struct, kw_only=True):
    """One of several preemptions that the reference chose in the same situation."""

    nominated: str = ""
    victims: list[str] = []

    def __post_init__(self) -> None:
        self.victims = sorted(self.victims)


class Step(msgspec.Struct, kw_only=True):
    """One recorded decision."""

    pod: str
    outcome: str
    rejected: dict[str, RecordedStatus] = {}
    absentNodes: RecordedStatus | None = None
    preFilter: RecordedStatus | None = None
    feasible: list[str] = []
    scores: dict[str, RecordedScores] = {}
    best: list[str] = []
    chosen: str = ""
    unschedulablePlugins: list[str] = []
    message: str = ""
    postFilterMessage: str = ""
    nominated: str = ""
    victims: list[str] = []
    acceptable: list[Preempted] = []
    error: str = ""
    allocations: dict[str, dict[str, Any]] | None = None
    """The allocation that Reserve made for each claim, by its name. None: not recorded."""


class _Recorded(msgspec.Struct, kw_only=True):
    name: str
    objects: list[msgspec.Raw]
    pending: list[msgspec.Raw]
    config: dict[str, Any] | None = None
    gates: dict[str, bool] = {}
    """Feature gates whose values aren't the default ones."""
    version: str = OLDEST
    """The version of Kubernetes."""
    without: list[str] = []
    """Changes of this version that had not been made yet in what was recorded."""


class _Document(msgspec.Struct):
    scenario: _Recorded
    decisions: list[Step]


class _Header(msgspec.Struct):
    apiVersion: str
    kind: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, the pods to schedule in their order, and the recorded decision for each.

    `place`: file and line. `profiles` by scheduler name.
    """

    family: str
    name: str
    place: str
    state: ClusterState
    profiles: Mapping[str, Profile]
    pending: Mapping[str, PodInfo]
    steps: list[Step]

    def profile_of(self, pod: PodInfo) -> Profile:
        """The profile that decides for a pod."""
        return self.profiles.get(pod.scheduler_name) or next(iter(self.profiles.values()))


def family_of(path: Path) -> str:
    """The family of a file: its name without suffixes."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def read_scenarios(path: Path, limit: int | None = None) -> Iterator[Scenario]:
    """The scenarios of a `.jsonl` or `.jsonl.gz` file, the first `limit` of them. Raises UnreadableScenarios."""
    number = 0
    try:
        with path.open("rb") as file, _lines_of(path, file) as lines:
            for number, line in enumerate(lines, 1):
                if limit is not None and number > limit:
                    return
                yield _scenario(line, family_of(path), f"{path}:{number}")
    except OSError as error:
        where = f"line {number + 1}: " if number else ""
        raise UnreadableScenarios(f"{path}: {where}{error.strerror or error}") from None
    except UnusableFileError as error:
        raise UnreadableScenarios(f"{path}: line {number + 1}: the file ends or breaks off here: {error}") from None
    if not number:
        raise UnreadableScenarios(f"{path}: no scenario in it")


def _short(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file. Raises UnusableFileError for one without an end, such as that of a device."""
    while line := file.readline(_LONGEST + 1):
        if len(line) > _LONGEST:
            raise UnusableFileError(f"a line has more than {_LONGEST / 2**20:,.0f} MiB")
        yield line


@contextmanager
def _lines_of(path: Path, file: BinaryIO) -> Iterator[Iterable[bytes]]:
    if not path.name.endswith(".gz"):
        yield _short(file)
        return
    with inflating(str(path), file, Allowance(str(path), path.stat().st_size)) as lines:
        yield lines


def _scenario(line: bytes, family: str, place: str) -> Scenario:
    try:
        document = msgspec.json.decode(in_own_form(line, family), type=_Document)
        recorded = document.scenario
        gates = _gates(recorded)
        configuration = (
            parse_configuration(recorded.config, gates=gates) if recorded.config else KubeSchedulerConfiguration()
        )
        state = ClusterState()
        handle = OfflineHandle(state)
        handle.time = RECORDED_AT
        profiles = {
            each.schedulerName: build_profile(_with_every_candidate(each), handle, gates=gates)
            for each in configuration.profiles
        }
        for raw in recorded.objects:
            _take_over(bytes(raw), state, profiles)
        pods = [PodInfo.from_raw(bytes(raw)) for raw in recorded.pending]
    except (msgspec.MsgspecError, ConfigurationError, UndecodableObject, ValueError, RecursionError) as error:
        raise UnreadableScenarios(f"{place}: {error}") from None
    pending = {pod.key: pod for pod in pods}
    for step in document.decisions:
        if step.pod not in pending:
            raise UnreadableScenarios(f"{place}: decision for pod {step.pod}, which is not pending")
        if step.chosen and step.chosen not in state.table.row_of:
            raise UnreadableScenarios(f"{place}: pod {step.pod} goes to node {step.chosen}, which does not exist")
    return Scenario(family, recorded.name, place, state, profiles, pending, document.decisions)


def _gates(recorded: _Recorded) -> FeatureGates:
    """The gates of a scenario. Raises UnreadableScenarios."""
    if recorded.version not in VERSIONS:
        raise UnreadableScenarios(f"unknown version {recorded.version!r}: expected one of {', '.join(VERSIONS)}")
    read = read_gates([f"{name}={str(value).lower()}" for name, value in recorded.gates.items()], recorded.version)
    problems = [*read.problems, *(f"unknown change {name!r}" for name in recorded.without if name not in CHANGES)]
    if problems:
        raise UnreadableScenarios("; ".join(problems))
    return read.gates.but(off=tuple(recorded.without))


def _with_every_candidate(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """Make preemption try every node, unless the profile configures how many, so that the result is deterministic."""
    if any(config.name == "DefaultPreemption" for config in profile.pluginConfig):
        return profile
    every = PluginConfig("DefaultPreemption", {"minCandidateNodesPercentage": 100})
    return msgspec.structs.replace(profile, pluginConfig=[*profile.pluginConfig, every])


_KIND_OF = {
    **{(kind.api_version, kind.kind): kind for kind in kinds.TYPED_KINDS},
    (kinds.DEVICE_TAINT_RULE_V1BETA2.api_version, kinds.DEVICE_TAINT_RULE.kind): kinds.DEVICE_TAINT_RULE,
}


def _take_over(raw: bytes, state: ClusterState, profiles: Container[str]) -> None:
    header = msgspec.json.decode(raw, type=_Header)
    kind = _KIND_OF.get((header.apiVersion, header.kind))
    if kind is None:
        raise UnreadableScenarios(f"no such kind: {header.apiVersion} {header.kind}")
    if kind is kinds.POD:
        pod = PodInfo.from_raw(raw)
        if pod.node_name:
            state.set_pod(pod)
        elif pod.nominated_node_name and pod.scheduler_name in profiles:  # a scheduler ignores pods of other schedulers
            state.nominations.add(pod)
        return
    obj = decode(kind.type, raw)
    if kind is kinds.NODE:
        state.set_node(obj)
    else:
        namespace = f"{obj.metadata.namespace}/" if kind.namespaced else ""
        state.objects[kind].set(f"{namespace}{obj.metadata.name}", obj)
