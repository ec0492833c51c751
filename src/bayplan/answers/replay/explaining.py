"""Explains a recorded decision: the node and the victims that were chosen then, not what chance would choose now.

It is `explain` (`bayplan.insight`) on the cluster just before the decision, with the recorded outcome in place of a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import msgspec

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.questions.explain import Explanation, decision_of
from bayplan.answers.insight.questions.gangs import gang_of
from bayplan.answers.insight.questions.rejected_nodes import rejected_nodes
from bayplan.answers.insight.questions.scores import score_table
from bayplan.answers.replay.evictions import EvictionsFor
from bayplan.answers.replay.moments import PodNames, RecordedDecision
from bayplan.answers.replay.policies import Policy
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD, POD_DISRUPTION_BUDGET
from bayplan.core.api.objects import encode
from bayplan.core.cluster.disruption_budgets import Budgets
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Candidate, Shortlist
from bayplan.core.framework.profile import Point
from bayplan.core.framework.what_if import ProfileWhatIf
from bayplan.core.scheduling import Decision
from bayplan.running.recording.entries import PodDecided


@dataclass(frozen=True, slots=True)
class DecisionExplanation(Explanation):
    """The answer about one pod of a recorded decision. `outcome`, `node` and `victims` are what was decided.

    `decision`: its number. `evicted`: the pods that were evicted before, to get there.
    """

    decision: int = 0
    evicted: tuple[str, ...] = ()

    def headline(self) -> str:
        """What was decided, in one line."""
        if self.outcome == Fate.PLACED.value:
            return f"it was placed on node {self.node}"
        if self.outcome == Fate.PREEMPTS.value:
            return f"it preempted {listed(self.victims)} on node {self.node}"
        return "it was not placed"


@dataclass(frozen=True, slots=True)
class ExplainedDecision:
    """A decision to explain. `names`, `evictions`: what the run has said until then.

    `snapshot`: the cluster just before. `policy`: what decided.
    """

    decided: RecordedDecision
    names: PodNames
    evictions: EvictionsFor
    snapshot: Snapshot
    policy: Policy

    def about(self, key: str) -> Explanation:
        """Explain what was decided about a pod. Raises QuestionError."""
        one = self.decided.of(key)
        placed = one is not None and self.decided.places(one)
        victims = () if one is None else self.decided.victims_of(one.uid)
        if one is None or not (placed or victims):
            return self._insight(one).explain(key)
        insight = self._insight(None)
        insight.world.reset()
        pod = insight.pod(key)
        if pod.node_name:  # what was decided is about its resize
            return insight.explain(key)
        with insight.world.what_if():
            notes = list(_gang_notes(insight.world, pod, self._place_before(insight.world, one)))
            node = one.node or self.decided.node_for(one.uid)
            found = _explained(insight.world, pod, node, self.names.of(victims), notes)
        before = [each for each in self.evictions.of(one.uid) if each.number < self.decided.number]
        evicted = [uid for each in before for uid in each.victims_of(one.uid)]
        return replace(found, decision=self.decided.number, evicted=tuple(self.names.of(evicted)))

    def _place_before(self, world: World, one: PodDecided) -> list[PodDecided]:
        """Count the members of a pod's gang that found their nodes before it there. Returns them."""
        before = list(takewhile(lambda each: each.uid != one.uid, self.decided.pods))
        there = [each for each in before if self.decided.places(each) and each.key in world.pending]
        for each in there:
            world.change(POD, each.key, world.pending[each.key].on_node(each.node))
        return there

    def _insight(self, one: PodDecided | None) -> Insight:
        """Questions about the cluster. `one`: a decision whose message the pod has, so that no other one is blamed."""
        snapshot, policy = self.snapshot, self.policy
        if one is not None and one.key in snapshot.documents.get(POD, {}):
            pods = dict(snapshot.documents[POD])
            pods[one.key] = _with_condition(pods[one.key], one)
            snapshot = replace(snapshot, documents={**snapshot.documents, POD: pods})
        return Insight(snapshot, policy.configuration, policy.plugins, gates=policy.gates)


def _with_condition(raw: bytes, one: PodDecided) -> bytes:
    """A pod that says what was decided, as it did afterwards."""
    document = msgspec.json.decode(raw)
    status = document.setdefault("status", {})
    others = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": one.message}
    status["conditions"] = [*others, condition]
    return encode(document)


def _gang_notes(world: World, pod: PodInfo, before: Sequence[PodDecided]) -> Iterator[str]:
    """Yield with which gang a pod was placed, and where those of its members are that found a node before it."""
    gang = gang_of(world, pod)
    if gang is None:
        return
    path = ", in ".join(f"gang {each.name}" for each in reversed(gang.down_to(pod.uid)))
    where = listed([f"{each.key} on {each.node}" for each in before])
    yield f"it is a pod of {path}; {f'before it, these found a node: {where}' if before else 'it was the first one'}"


def _explained(
    world: World, pod: PodInfo, node: str, victims: list[str], gang_notes: Sequence[str]
) -> DecisionExplanation:
    first = decision_of(world, pod)
    placed = not victims
    notes = _preemption_notes(world, pod, first, node) if victims and first is not None else []
    return DecisionExplanation(
        pod.key,
        (Fate.PLACED if placed else Fate.PREEMPTS).value,
        "",
        node,
        victims=tuple(victims),
        groups=() if placed or first is None else rejected_nodes(world, first.diagnosis),
        scores=score_table(world, first, node) if placed and first is not None and first.scores else None,
        notes=(*gang_notes, *notes),
    )


def _preemption_notes(world: World, pod: PodInfo, first: Decision, node: str) -> list[str]:
    """Why these victims and no others: which nodes were as good, and what else they would have cost."""
    shortlist = _shortlist(world, pod, first)
    candidates = () if shortlist is None else shortlist.candidates
    chosen = next((each for each in candidates if each.node_name == node), None)
    if shortlist is None or chosen is None:
        return []
    others = [each for each in candidates if each is not chosen]
    notes = []
    if chosen.violations:
        budgets = _violated(world, chosen)
        which = f"the disruption budget{'s' if len(budgets) > 1 else ''} {listed(budgets)}"
        every = f"that of the pods on each of the {plural(len(candidates), 'node')} where preemption helps"
        why = f", and so would {every}" if others else ": there was no other node where preemption helps"
        notes.append(f"the eviction violated {which}{why}")
    equal = sorted(each.node_name for each in others if _as_good(shortlist, chosen, each))
    if equal:
        pods = "other pods on" if len(equal) == 1 else "pods on"
        notes.append(f"{pods} {listed(equal)} would have been as good: chance decided")
    elif others:
        notes.append(f"preemption would have helped on {plural(len(candidates), 'node')}: this one was the best")
    return notes


def _shortlist(world: World, pod: PodInfo, first: Decision) -> Shortlist | None:
    """The candidates that the profile's plugins offer; None if no plugin offers a list."""
    profile = world.profiles[pod.scheduler_name].for_pod(pod)
    what_if = ProfileWhatIf(profile, world.state.nominations, world.rng)
    for plugin in profile.at(Point.POST_FILTER):
        found = plugin.post_filter(first.cycle, pod, first.diagnosis, what_if)
        if isinstance(found, Shortlist):
            return found
    return None


def _as_good(shortlist: Shortlist, one: Candidate, other: Candidate) -> bool:
    """Whether the plugin takes the first one of two candidates, as both are as good."""
    return all(shortlist.choose(pair).nominated_node == pair[0].node_name for pair in ((one, other), (other, one)))


def _violated(world: World, candidate: Candidate) -> list[str]:
    """The disruption budgets that an eviction violates."""
    budgets = world.state.objects[POD_DISRUPTION_BUDGET]
    return sorted(key for key, budget in budgets.items() if any(Budgets([budget]).violations(candidate.victims)))
