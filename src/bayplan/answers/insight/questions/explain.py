"""explain: why a pod is pending, or why it is on its node, and what would help.

The pod is attempted, with its gang; a pod with a node is attempted as if it were pending. Then all plugins are asked
(`blockers.py`), and changes are tried in the world (`trying.py`). Only PostFilter plugins that were called say where
evictions are of no use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, listed, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.nodes import no_node
from bayplan.answers.insight.questions.blockers import LOOKED_AT, Blockers
from bayplan.answers.insight.questions.candidates_of_preemption import preemption_notes
from bayplan.answers.insight.questions.change import Attempt, Confirm, Help, tried_help
from bayplan.answers.insight.questions.documents import pending_copy
from bayplan.answers.insight.questions.gangs import MissingMember, fewer_members, gang_of, ungating
from bayplan.answers.insight.questions.notes import bypassing_notes, message_of, notes_of
from bayplan.answers.insight.questions.preemption_trials import PreemptionTrial, preemption_trials, trials_shown
from bayplan.answers.insight.questions.progress import chosen_already, progress_notes
from bayplan.answers.insight.questions.rejected_nodes import RejectedNodes, detailed, rejected_nodes, rejections_table
from bayplan.answers.insight.questions.rivals import tried_alone
from bayplan.answers.insight.questions.sampling import Sampling, sampling_of
from bayplan.answers.insight.questions.scores import ScoreTable, score_table
from bayplan.answers.insight.questions.trying import what_would_help, with_more
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import ExplainPostFilter
from bayplan.core.framework.near_names import near_name
from bayplan.core.framework.profile import Point, implements
from bayplan.core.framework.status import PluginError
from bayplan.core.scheduling import Decision, Unit


@dataclass(frozen=True, slots=True)
class Miss:
    """Nodes, and all that keeps the pod from each of them."""

    nodes: tuple[str, ...]
    blockers: tuple[str, ...]

    @property
    def node(self) -> str:
        """The first of the nodes."""
        return self.nodes[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the nodes as in docs/insight.md."""
        return {"node": self.node, **fields_of(self)}

    @property
    def text(self) -> str:
        """The nodes and the blockers as one sentence."""
        return f"{listed(self.nodes)}: {'; '.join(self.blockers)}"


@dataclass(frozen=True, slots=True)
class Explanation(Answer):
    """The answer about one pod.

    `outcome`: `placed` if the pod has a node or would get one now, `preempts` if it would evict `victims` first, else
    `pending`. `bound`: whether the pod has a node in the snapshot. `node`: that node, or the one that it would get.
    `message`: the event's text. `now`: for a bound pod, the node that it would get if it were scheduled again.
    `cause`: what rejects the pod on every node, in one sentence; "" if nodes differ. `sampling`: that kube-scheduler
    may not look at the best node. `alone`: that another pending pod could take the room that a help makes; "" if none
    was found. `shown`: the most rows of a table; 0 for all. `interrupted`: whether more changes may help.
    """

    pod: str
    outcome: str
    message: str
    node: str | None = None
    bound: bool = False
    now: str | None = None
    victims: tuple[str, ...] = ()
    groups: tuple[RejectedNodes, ...] = ()
    nearest: tuple[Miss, ...] = ()
    help: tuple[Help, ...] = ()
    preemption: tuple[PreemptionTrial, ...] = ()
    scores: ScoreTable | None = None
    sampling: Sampling | None = None
    cause: str = ""
    alone: str = ""
    notes: tuple[str, ...] = field(default=())
    shown: int = 20
    interrupted: bool = False

    @property
    def next_steps(self) -> Sequence[str]:
        """The changes that help."""
        return [each.text for each in self.help]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per node: its score, or the plugin and the reasons that rejected it."""
        if self.scores is not None:
            return [{"node": each.node, "total": each.total, **each.plugins} for each in self.scores.nodes]
        return [
            {"node": node, "plugin": group.plugin, "reasons": ", ".join(group.reasons)}
            for group in self.groups
            for node in group.nodes
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the answer as text and tables."""
        parts: list[RenderableType] = [Text(f"pod {self.pod}: {self.headline()}", style="bold")]
        if self.message and not self.bound:
            parts.append(Text(self.message))
        if self.cause:
            parts.append(Text(f"on all nodes: {self.cause}", style="bold"))
        parts += [Text(f"note: {note}", style="yellow") for note in self.notes]
        if self.groups:
            parts += [Text(), rejections_table(self.groups, wide=wide, limit=self.shown)]
        if self.nearest:
            parts += [Text(), Text("nearest misses", style="bold"), _misses(self.nearest)]
        if self.preemption:
            parts += [Text(), Text("preemption", style="bold"), trials_shown(self.preemption)]
        if self.help:
            parts += [Text(), Text("what would help (each was tried)", style="bold")]
            parts += [Padding(Text(each.text), (0, 0, 0, 2)) for each in self.help]
            parts += [Text(f"note: {self.alone}", style="yellow")] if self.alone else []
        elif self.nearest and not self.interrupted:
            parts += [Text(), Text("none of the changes that were tried helps", style="bold")]
        if self.scores is not None:
            parts += [Text(), self.scores.render(wide=wide)]
        if self.sampling is not None:
            parts.append(Text(f"note: {self.sampling.text}", style="yellow"))
        if self.interrupted:
            parts += [Text(), Text(INTERRUPTED, style="bold")]
        return Lines(*parts)

    def headline(self) -> str:
        """The outcome in one line, without the pod."""
        if self.bound:
            if self.now == self.node:
                return f"on node {self.node}; it would go there again"
            return f"on node {self.node}; it would go to {self.now or 'no node'} now"
        if self.outcome == Fate.PLACED.value:
            return f"pending, and would be placed on node {self.node} now"
        if self.outcome == Fate.PREEMPTS.value:
            return f"pending, and would preempt {listed(self.victims)} on node {self.node} now"
        return "pending"


def explain(
    world: World,
    pod: PodInfo,
    *,
    helps: int = 5,
    nearest: int = 10,
    shown: int = 20,
    progress: Progress = silent,
    confirm: Confirm = tried_help,
    last: Sequence[Attempt] = (),
    more: Sequence[Attempt] = (),
) -> Explanation:
    """Explain one pod of a world. `helps` and `nearest`: how many changes and groups of nodes to list; 0 for all nodes.

    `progress` may raise Stopped while changes are tried; the answer then has those that were found to help, and passed
    `confirm`. `last`: what else may help a pod for which other pods could be evicted, as far as plugins tell, and
    `more` what may help any.
    """
    if pod.scheduler_name not in world.profiles:
        return _without_scheduler(world, pod)
    with world.what_if():
        missing = None if pod.node_name or world.gate_of(pod) else MissingMember.of(world, pod)
        blockers = Blockers(world, pod)
        resize = _deferred_resize(world, pod)
        if pod.node_name:
            found = _explain_bound(world, pod)
        else:
            found = _explain_pending(world, pod, missing, nearest, blockers)
        if resize is not None:
            notes, victims, trials = resize
            found = replace(found, notes=(*notes, *found.notes), victims=victims, preemption=trials)
        waits = world.gate_of(pod) is not None or gang_of(world, pod) is not None
        if found.outcome == Fate.PENDING.value and (found.nearest or waits):
            first = [*ungating(world, pod), *(missing.changes(world) if missing is not None else ())]
            first += fewer_members(world, pod, missing)
            helpful = what_would_help(world, pod, blockers, helps, progress=progress, first=first, confirm=confirm)
            if not helpful.interrupted:
                helpful = with_more(helpful, (attempt(world, pod, progress) for attempt in more), helps)
            enough = sum(each.lasts and each.change.size == 1 for each in helpful.found) >= helps
            if _may_preempt(world, pod, found) and not enough and not helpful.interrupted:
                helpful = with_more(helpful, (attempt(world, pod, progress) for attempt in last), helps)
            alone = "" if helpful.interrupted else tried_alone(world, pod, helpful.found, progress)
            found = replace(found, help=helpful.found, alone=alone, interrupted=helpful.interrupted)
        return replace(found, shown=shown)


def _may_preempt(world: World, pod: PodInfo, found: Explanation) -> bool:
    """Whether a plugin has tried evictions for a pod, or doesn't tell."""
    plugins = world.profiles[pod.scheduler_name].for_pod(pod).at(Point.POST_FILTER)
    return bool(found.preemption) or not all(implements(each, ExplainPostFilter) for each in plugins)


def _without_scheduler(world: World, pod: PodInfo) -> Explanation:
    names = ", ".join(world.profiles)
    asked = pod.scheduler_name  # most names end in -scheduler, which makes them similar
    near = near_name(asked, world.profiles, 0.8) or next((name for name in world.profiles if name in asked), None)
    instead = f"; did you mean {near}?" if near else f"; there are profiles for {names}"
    note = f"no scheduler here has the pod's schedulerName {pod.scheduler_name!r}{instead}"
    return Explanation(
        pod.key,
        "placed" if pod.node_name else "pending",
        "",
        pod.node_name or None,
        bound=bool(pod.node_name),
        notes=(note,),
    )


def _explain_bound(world: World, pod: PodInfo) -> Explanation:
    world.change(POD, pod.key, pending_copy(pod))
    again = world.pending[pod.key]
    decision = decision_of(world, again)
    now = decision.node if decision is not None else None
    scores = None
    if decision is not None and decision.scores is not None:
        scores = score_table(world, decision, pod.node_name)
    notes = list(bypassing_notes(world, pod))
    groups: tuple[RejectedNodes, ...] = ()
    if decision is not None:
        groups = rejected_nodes(world, decision.diagnosis)
        if now is None:
            notes.append(f"without the pod, no node would accept it now: {decision.message}")
    blocked = Blockers(world, again)
    position = blocked.nodes.position(pod.node_name)
    if position is None:
        notes.append(no_node(pod.node_name, blocked.nodes.table.row_of))
    else:
        notes += [f"its node would reject it now: {each.text}" for each in blocked.of(position)]
    return Explanation(
        pod.key,
        Fate.PLACED.value,
        f"Successfully assigned {pod.key} to {pod.node_name}",
        pod.node_name,
        bound=True,
        now=now,
        groups=groups,
        scores=scores,
        sampling=sampling_of(world, pod, decision) if decision is not None else None,
        notes=tuple(notes),
    )


def _deferred_resize(
    world: World, pod: PodInfo
) -> tuple[Sequence[str], tuple[str, ...], tuple[PreemptionTrial, ...]] | None:
    """What a deferred resize waits for, as notes, the pods that it would evict now, and trials of that if it wouldn't.

    None where the scheduler does nothing about it.
    """
    position = world.state.nodes.position(pod.node_name)
    if position is None or not world.profiles[pod.scheduler_name].resizes(pod):
        return None
    decision = world.attempt(Unit(pod)).decisions[0]
    if decision.node is not None:
        return ["its deferred resize fits now; it waits for the kubelet to carry it out"], (), ()
    victims = tuple(victim.key for victim in decision.victims)
    texts = "; ".join(each.text for each in Blockers(world, pod).of(position))
    notes = [f"its resize is deferred: {texts}"]
    if victims:
        notes.append(f"it would preempt {listed(victims)} for its resize now")
    elif pod.spec.preemptionPolicy == "Never" and decision.diagnosis.post_filters:
        notes.append("its preemptionPolicy is Never, so it preempts no pod for its resize")
    return notes, victims, () if victims else preemption_trials(world, pod, decision)


def _explain_pending(
    world: World, pod: PodInfo, missing: MissingMember | None, nearest: int, blockers: Blockers
) -> Explanation:
    notes = notes_of(world, pod)
    with world.what_if():
        result = Simulation(world).outcome(pod)[pod.key]
    placed = result.fate is Fate.PLACED
    notes += progress_notes(world, pod, result, message_of(result))
    chosen = chosen_already(world, pod, result)
    if chosen:
        return Explanation(pod.key, Fate.PENDING.value, chosen, notes=tuple(notes))
    decision = result.decision if result.fate is Fate.PENDING else None
    if result.gated or (decision is None and result.fate is Fate.PENDING):
        # What comes after the gate, or the gang, is of interest too: as if it were in no gang and had passed its gates.
        decision = world.attempt(Unit(pod), explain=True).decisions[0]
    if result.fate is not Fate.PENDING:
        first = decision_of(world, pod)
        notes += preemption_notes(world, pod, result.node, result.victims, first) if result.victims else ()
        return Explanation(
            pod.key,
            result.fate.value,
            "" if placed else message_of(result),  # "Successfully assigned" would sound as if it had happened
            result.node,
            victims=tuple(victim.key for victim in result.victims),
            groups=rejected_nodes(world, first.diagnosis) if first is not None and result.victims else (),
            scores=score_table(world, first, result.node) if first is not None and first.scores else None,
            sampling=sampling_of(world, pod, first) if first is not None else None,
            notes=tuple(notes),
        )
    if missing is not None:
        notes += missing.placement_notes()
        decision = missing.decision
        if decision.pod.uid != pod.uid:
            notes.append(f"{decision.pod.name} is the member that finds no node; what follows is about it")
    with missing.others_placed(world) if missing is not None else nullcontext():
        about = blockers if missing is None else Blockers(world, missing.decision.pod)
        misses, texts = _nearest(about, nearest)
        cause = on_all_nodes(about)
    return Explanation(
        pod.key,
        result.fate.value,
        message_of(result),
        groups=detailed(rejected_nodes(world, decision.diagnosis), texts) if decision is not None else (),
        nearest=misses,
        cause=cause,
        preemption=preemption_trials(world, pod, decision) if decision is not None else (),
        notes=tuple(notes),
    )


def decision_of(world: World, pod: PodInfo) -> Decision | None:
    """Return the decision about a pod in its unit, with scores; None if the pod itself was not attempted."""
    try:
        plan = world.attempt(world.unit_of(pod), explain=True)
    except PluginError:  # the plugin that knows the gang fails, and so does the attempt
        return None
    return next((decision for decision in plan.decisions if decision.pod.uid == pod.uid), None)


def _nearest(blockers: Blockers, limit: int) -> tuple[tuple[Miss, ...], Mapping[tuple[str, str], str]]:
    """Return the nearest nodes, together with those that are blocked by the same, and all texts by node and plugin.

    `limit`: of groups; 0 for all nodes.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    texts: dict[tuple[str, str], str] = {}
    for position in blockers.nearest(LOOKED_AT if limit else len(blockers.nodes)):
        name, there = blockers.nodes.name(position), blockers.of(position)
        texts |= {(name, each.plugin): each.text for each in there}
        found.setdefault(tuple(dict.fromkeys(each.text for each in there)), []).append(name)
    misses = [Miss(tuple(names), blocked) for blocked, names in found.items()]
    return tuple(misses[:limit] if limit else misses), texts


def on_all_nodes(blockers: Blockers) -> str:
    """Return what rejects the pod on every node; "" if nothing does, or if all nodes are rejected alike anyway."""
    positions = blockers.nearest(LOOKED_AT)
    if len(positions) < int(blockers.nodes.live.sum()):
        return ""
    texts = [dict.fromkeys(each.details.everywhere or each.text for each in blockers.of(place)) for place in positions]
    common = [text for text in texts[0] if all(text in each for each in texts)] if texts else []
    said = any(each.details.everywhere in common for place in positions[:1] for each in blockers.of(place))
    alike = all(each.keys() == texts[0].keys() for each in texts)
    return "; ".join(common) if said or not alike else ""


def _misses(misses: Sequence[Miss]) -> RenderableType:
    return Lines(*(Padding(Text(miss.text), (0, 0, 0, 2)) for miss in misses))
