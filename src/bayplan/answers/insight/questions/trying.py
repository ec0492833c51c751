"""Tries changes that may help a pending pod, each in the world, and orders those that do by what they cost.

A suggestion is therefore never a guess: the pod was placed with it. `changes.py` has the candidates.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bayplan.answers.insight.answers import Progress, Stopped, listed, plural, silent
from bayplan.answers.insight.questions.blockers import Blockers
from bayplan.answers.insight.questions.change import Change, Confirm, Help, Helpful, make, tried_help
from bayplan.answers.insight.questions.changes import candidates, evicted
from bayplan.answers.insight.questions.claim_templates import make_claims
from bayplan.answers.insight.questions.new_objects import bind_claims
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import may_make_room

_COMBINATIONS = (4, 25)
"""The most combinations of remedies to try for nodes that are blocked alike: at first, and if none of these helps."""

_STUCK = 3
"""The most helps with which a rollout gets stuck: after these, no more changes of a template are tried."""


def what_would_help(
    world: World,
    pod: PodInfo,
    blockers: Blockers,
    limit: int,
    only: Sequence[int] | None = None,
    progress: Progress = silent,
    first: Sequence[Change] = (),
    confirm: Confirm = tried_help,
) -> Helpful:
    """Try changes in the world, and return those that let the pod be placed, up to `limit`.

    A change that has more parts than one that helps is left out. A single change may let the pod preempt others. The
    order is that of `Help.order`. `only`: the positions of the nodes to consider; by default, the nearest ones.
    `first`: changes to try before all others. `confirm` is called with each change that helps. `progress` may raise
    Stopped.
    """
    search = _Search(world, pod, limit, confirm, progress)
    try:
        for combinations in _COMBINATIONS:
            for change in itertools.chain(first, candidates(world, pod, blockers, only, combinations)):
                if len(search.lasting) == limit:
                    break
                search.look_at(change)
            if search.found:
                break
    except Stopped:
        return Helpful(in_order(search.found, limit), interrupted=True)
    return Helpful(in_order(search.found, limit))


def in_order(found: Iterable[Help], limit: int) -> tuple[Help, ...]:
    """Return the first helps in their order, up to `limit`."""
    return tuple(sorted(found, key=lambda each: each.order)[:limit])


@dataclass(slots=True)
class _Search:
    """What was tried for a pod, and found to help."""

    world: World
    pod: PodInfo
    limit: int
    confirm: Confirm
    progress: Progress
    found: list[Help] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)

    @property
    def lasting(self) -> list[Help]:
        return [each for each in self.found if each.lasts]

    def look_at(self, change: Change) -> None:
        """Try a change, unless it can't be better than those that help. Raises Stopped."""
        enough = (each.change.parts <= change.parts for each in self.found if not each.victims)
        if not change.parts or change.text in self.tried or any(enough):
            return
        if change.edits and len(self.found) - len(self.lasting) >= _STUCK:
            return
        self.tried.add(change.text)
        self.progress(f"{plural(len(self.tried), 'change')} tried, {len(self.found)} of them would help")
        try:
            found = after(self.world, self.pod, change)
        except ValueError:  # a plugin made a manifest that can't be read
            return
        confirmed = None if found is None else self.confirm(self.world, self.pod, found, self.progress)
        if confirmed is not None:
            self.found.append(confirmed)


def with_more(helpful: Helpful, more: Iterator[Help | None], limit: int) -> Helpful:
    """Add more changes, until Stopped is raised, and keep the first ones in their order."""
    found, interrupted = list(helpful.found), helpful.interrupted
    try:
        found += filter(None, more)
    except Stopped:
        interrupted = True
    return Helpful(in_order(found, limit), interrupted)


def after(world: World, pod: PodInfo, change: Change) -> Help | None:
    """Return what a change does for a pod; None if it stays pending. Only with a single change, it may preempt.

    Raises ValueError for a manifest that can't be read.
    """
    with world.trial():
        make(world, change)
        bind_claims(world, pod)
        make_claims(world, pod.key, change.apply)
        pending = world.pending.get(pod.key)
        result = None if pending is None else Simulation(world).outcome(pending).get(pod.key)
    if pending is None or result is None or result.node is None or not change.is_for(result.node):
        return None
    if result.fate is Fate.PLACED:
        return Help(change, result.node)
    single = change.size == 1 and not change.delete and not change.like
    if (
        result.fate is not Fate.PREEMPTS
        or not single
        or not all(may_make_room(pending, each) for each in result.victims)
    ):
        return None
    victims = tuple(victim.key for victim in result.victims)
    cost = f"it then preempts {listed(victims, 3)}: {evicted(victims)}"
    costs = ", ".join(filter(None, (change.cost, cost)))
    return Help(replace(change, cost=costs), result.node, victims)
