"""Why a gang does not fit: which member finds no node once the others have theirs, and who isn't there yet.

The attempt of the whole gang says so (`Shortfall` of its plan). Changes for the missing member are tried while the
others are on their nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.questions.blockers import Blockers, gates_of
from bayplan.answers.insight.questions.change import Change
from bayplan.answers.insight.questions.changes import candidates, combined
from bayplan.answers.insight.questions.documents import pod_document
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.gangs import FewerMembers, Gang
from bayplan.core.framework.profile import implements
from bayplan.core.framework.remedies import together
from bayplan.core.framework.status import PluginError
from bayplan.core.scheduling import Decision, Options, Plan, Shortfall
from bayplan.core.scheduling.reservations import place

_COMBINATIONS = 4
"""The most combinations of remedies to try for a kind of nodes."""
_PLACEMENTS = 10
"""The most placements in one note."""


def gang_of(world: World, pod: PodInfo) -> Gang | None:
    """Return the gang of a pending pod; None if it is in none, or if the plugin that knows fails."""
    try:
        return world.unit_of(pod).gang
    except PluginError:
        return None


@dataclass(frozen=True, slots=True)
class MissingMember:
    """The first member of a gang that finds no node.

    `plan`: of the gang's attempt. `decision`: about the member, with those before it on their nodes.
    """

    plan: Plan
    decision: Decision

    @classmethod
    def of(cls, world: World, pod: PodInfo) -> MissingMember | None:
        """Return the missing member of a pod's gang; None without a gang, or if the gang fits or wasn't tried."""
        if gang_of(world, pod) is None:
            return None
        plan = world.attempt(world.unit_of(pod))
        missing = plan.shortfall.next if plan.shortfall is not None else None
        return None if missing is None else cls(plan, missing)

    @contextmanager
    def others_placed(self, world: World) -> Iterator[None]:
        """A what-if in which the members that fit are on their nodes, with what they reserve there."""
        profile = world.profiles[self.decision.pod.scheduler_name]
        with world.state.what_if() as what_if:
            for decision in self.plan.decisions:
                if decision.pod.uid == self.decision.pod.uid or not decision.node:
                    break
                place(decision, decision.node, what_if, profile, Options())
            yield

    def changes(self, world: World) -> list[Change]:
        """Return what may help the member, found while the others are on their nodes."""
        pod = self.decision.pod
        with self.others_placed(world):
            return list(candidates(world, pod, Blockers(world, pod), None, _COMBINATIONS))

    def placement_notes(self) -> Iterator[str]:
        """Yield how many members fit in each of the node sets that the whole gang may be placed in."""
        short = self.plan.shortfall
        for each in () if short is None else (*short.within, short):
            if each.placement:
                yield _sets_of(each)


def _sets_of(short: Shortfall) -> str:
    """How many members, or groups, of a gang fit in each of the node sets that it may be placed in."""
    what = "groups" if short.gang.groups_needed else "members"
    sets = ((short.placement, short.fitting), *sorted(short.elsewhere, key=lambda each: -each[1]))
    texts = [f"{name} has room for {fitting} of {short.needed} {what}" for name, fitting in sets[:_PLACEMENTS]]
    texts += [f"and {len(sets) - _PLACEMENTS:,} more"] if len(sets) > _PLACEMENTS else []
    where = f"nodes with the same {short.label}" if short.label else "one of its placements"
    return f"gang {short.gang.name} must be placed on {where}: {', '.join(texts)}"


def fewer_members(world: World, pod: PodInfo, missing: MissingMember | None) -> Iterator[Change]:
    """Yield the change with which a pod's gang needs only as many pods as there are, or as find a node."""
    gang = gang_of(world, pod)
    plugin: Any = None if gang is None else world.unit_of(pod).named_by
    if gang is None or not implements(plugin, FewerMembers):
        return
    gang = gang.down_to(pod.uid)[-1]
    members = {member.uid for member in gang.members}
    there = gang.placed + sum(each.uid in members for each in world.unit_of(pod).pending)
    decisions = () if missing is None else missing.plan.decisions
    fitting = gang.placed + sum(bool(each.node) and each.pod.uid in members for each in decisions) if decisions else 0
    for number in dict.fromkeys((there, fitting)):
        try:
            remedy = call(plugin, "Explain", plugin.fewer_members, gang, number) if number else None
        except PluginError:
            return
        if remedy is not None:
            yield combined(pod, None, [remedy])


def finished_members(world: World, gang: Gang) -> Iterator[PodInfo]:
    """Yield the pods of a gang that have finished, which therefore don't count."""
    for key, raw in world.contents.documents.get(POD, {}).items():
        if gang.name.encode() not in raw or world.pod(key) is not None:
            continue
        try:
            pod = PodInfo.from_raw(raw)
        except ValueError:
            continue
        of = gang_of(world, pod) if pod.terminated and pod.scheduler_name in world.profiles else None
        in_group = gang.pod_group == pod_group_of(pod) if gang.pod_group else of is not None and of.name == gang.name
        if of is not None and in_group:
            yield pod


def gang_notes(world: World, pod: PodInfo) -> Iterator[str]:
    """Yield how many members there are, and who is missing."""
    gang = gang_of(world, pod)
    if gang is None:
        return
    *above, gang = gang.down_to(pod.uid)
    yield from (f"gang {each.name}: {_groups_of(each)}" for each in above)
    members = {member.uid for member in gang.members}
    pending, gated = sum(each.uid in members for each in world.unit_of(pod).pending), len(gang.gated)
    missing = max(gang.needed - pending - gated, 0)
    parts = [f"{plural(gang.placed, 'pod')} placed", f"{gang.needed} more needed", f"{pending} pending"]
    parts += [f"{gated} gated"] if gated else []
    yield f"gang {gang.name}: {', '.join(parts)}{f'; {missing} more must be created' if missing else ''}"
    for finished in finished_members(world, gang) if missing else ():
        maker = workload_of(finished)
        again = f"{maker} made it" if maker else "nothing creates another one"
        yield f"{finished.name} exists, but has finished and does not count; {again}"


def _groups_of(gang: Gang) -> str:
    """How many groups a gang of gangs has, and which of them lack pods."""
    text = f"{plural(len(gang.groups), 'group')}, {gang.groups_needed} needed"
    lacking = [each.name for each in gang.groups if not _has_pods(each)]
    named = f"{', '.join(lacking[:_PLACEMENTS])}{' and more' if len(lacking) > _PLACEMENTS else ''}"
    return f"{text}; too few pods exist for {named}" if lacking else text


def _has_pods(gang: Gang) -> bool:
    """Whether a gang has the pods that it needs, gated ones included."""
    if gang.groups_needed:
        return sum(map(_has_pods, gang.groups)) >= gang.groups_needed
    return len(gang.members) + len(gang.gated) >= gang.needed


def ungating(world: World, pod: PodInfo) -> Iterator[Change]:
    """Yield the removal of the gates of all members of a pod's gang."""
    gang = gang_of(world, pod)
    if gang is None or {member.uid for member in gang.gated} <= {pod.uid}:
        return
    documents, texts = [], []
    for member in gang.gated:
        remedies = [next(gate.remedies(), None) for gate in gates_of(world, member)]
        remedy = together(*(each for each in remedies if each is not None))
        if remedy.pod is None:
            return
        document = pod_document(member)
        remedy.pod(document)
        encode(document)
        documents.append(document)
        texts.append(f"{remedy.text} from {member.name}")
    yield Change(" and ".join(texts), tuple(documents), parts=frozenset(texts))
