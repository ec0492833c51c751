"""What another policy would have decided at the same moments: the cluster follows the recorded decisions.

Before each attempt, the other policy decides about the same unit in the same state, and changes nothing. What counts as
another decision is `bayplan.answers.judging`'s to say. Extenders are not asked.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.judging.judge import Judge
from bayplan.answers.replay.policies import Policy
from bayplan.answers.replay.replay import Moment, describe_decision
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import PluginError
from bayplan.core.scheduling import Decision, Options, Plan, attempt, run, unit_of
from bayplan.running.recording.entries import PodDecided
from bayplan.running.recording.files import Recording, RecordingError

MOST_KEPT = 1000
"""Differences that are kept with their details."""


@dataclass(frozen=True, slots=True)
class OtherDecision:
    """A decision that another policy would have made differently. `recorded` and `other` say what was decided."""

    number: int
    time: datetime
    pod: str
    recorded: str
    other: str


@dataclass(slots=True)
class OtherDecisions:
    """How another policy would have decided. `asked`: the pods that it was asked about.

    `same` chose the recorded node, or one as good; or both placed the pod nowhere.
    """

    asked: int = 0
    same: int = 0
    other_node: int = 0
    not_placed: int = 0
    """Placed in the recording, and not by the other policy."""
    placed: int = 0
    """Not placed in the recording, but by the other policy."""
    no_profile: int = 0
    """Their schedulerName has no profile in the other policy."""
    differences: list[OtherDecision] = field(default_factory=list)


def ask_another(
    recording: Recording, recorded: Policy, other: Policy, progress: Progress = silent
) -> tuple[OtherDecisions, str]:
    """Ask another policy at each moment of a recording. Returns why that can't be read to its end, too, or "".

    Raises RecordingError if a recorded decision isn't made again: the cluster isn't known from there.
    """
    candidate = OtherPolicy(other)

    def visit(moment: Moment) -> bool:
        progress(f"asking about decision {moment.number:,}")
        return candidate.visit(moment)

    replayed = recorded.replay(recording).run(visit)
    if replayed.difference is not None:
        raise RecordingError(
            f"decision {replayed.difference.number:,} can't be made again, so that the cluster isn't known from there: "
            f"`bayplan replay {recording.source}` says why"
        )
    return candidate.found, replayed.problem


class OtherPolicy:
    """Asks another policy before each attempt of a replay. `found` has what it would have decided."""

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        self.found = OtherDecisions()
        self._policy = policy
        self._seed = seed
        self._profiles: Mapping[str, Profile] = {}
        self._scheduler: object = None
        self._judge: Judge | None = None

    def visit(self, moment: Moment) -> bool:
        """Ask about the unit that is attempted. Never ends the replay."""
        if self._scheduler is not moment.scheduler:
            self._scheduler = moment.scheduler
            self._profiles = self._policy.build_profiles(moment.scheduler.handle)
            self._judge = Judge(moment.scheduler.state)
        recorded = {each.uid: each for each in moment.recorded}
        if not recorded:
            return False
        profile = self._profiles.get(moment.queued.pod.scheduler_name)
        if profile is None:
            self.found.no_profile += len(recorded)
            return False
        for decision in self._decide(moment, profile).decisions:
            if (before := recorded.get(decision.pod.uid)) is not None:
                self._count(moment, before, decision, profile)
        return False

    def _decide(self, moment: Moment, profile: Profile) -> Plan:
        """Decide, and change nothing. Extenders are not asked."""
        scheduler, pod = moment.scheduler, moment.queued.pod
        rng = random.Random(f"{self._seed} {moment.number}")

        def pending(uid: str) -> PodInfo | None:
            return scheduler.queue.pending(uid)

        try:
            unit = unit_of(pod, profile, pending)
        except PluginError as error:
            raise PluginError.of(error.plugin, "GangOf", error) from None
        return run(attempt(unit, profile, scheduler.state, rng, Options(failures=scheduler.failures)))

    def _count(self, moment: Moment, before: PodDecided, decision: Decision, profile: Profile) -> None:
        found = self.found
        found.asked += 1
        node = decision.node or ""
        assert self._judge is not None
        if self._judge.placement(decision, before.node, profile).equal:
            found.same += 1
            return
        if not node:
            found.not_placed += 1
        elif not before.node:
            found.placed += 1
        else:
            found.other_node += 1
        if len(found.differences) < MOST_KEPT:
            other = f"node {node}" if node else f"{decision.outcome.value}: {decision.message}"
            found.differences.append(
                OtherDecision(
                    moment.number, moment.time, before.key, describe_decision(before, moment.preemptions), other
                )
            )
