"""What a preemption costs: the disruption budgets that it violates, and the nodes where others would be evicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.questions.eviction_budgets import allowed_by
from bayplan.answers.simulation.evictions import budgets_of
from bayplan.answers.simulation.world import World
from bayplan.core.cluster.disruption_budgets import Budgets
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.extenders import ExtenderPreempt
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.runner import run_post_filter
from bayplan.core.framework.status import PluginError
from bayplan.core.framework.what_if import ProfileWhatIf
from bayplan.core.scheduling import Decision

_WHERE_AVOIDED = "preemption avoids that only where a candidate violates fewer budgets"
_NOT_SEEN = "preemption doesn't heed budgets whose selector is empty"
_SHOWN = 3
"""The most other candidates in a note."""


def preemption_notes(
    world: World, pod: PodInfo, node: str | None, victims: Sequence[PodInfo], decision: Decision | None
) -> Iterator[str]:
    """Yield the budgets that the eviction of a pod's victims violates, and the other candidates.

    `decision`: the one that found no feasible node, before the eviction.
    """
    yield from _violations(world, victims)
    others = [each for each in _candidates(world, pod, decision) if each.node_name != node]
    if others:
        texts = [_text(each) for each in others[:_SHOWN]]
        texts += [f"and {len(others) - _SHOWN:,} more"] if len(others) > _SHOWN else []
        yield f"other candidates, where the preemption would cost more or as much: {'; '.join(texts)}"


def _violations(world: World, victims: Sequence[PodInfo]) -> Iterator[str]:
    selected: dict[str, tuple[Any, list[str]]] = {}
    for victim in victims:
        for key, budget in budgets_of(world, victim):
            selected.setdefault(key, (budget, []))[1].append(victim.key)
    for key, (budget, names) in selected.items():
        allowed = allowed_by(budget)
        if len(names) > allowed:
            why = _WHERE_AVOIDED if Budgets([budget]) else _NOT_SEEN
            now = f"which allows {plural(allowed, 'eviction')} now"
            yield f"to evict {listed(names)} violates the budget {key}, {now}: {why}"


def _candidates(world: World, pod: PodInfo, decision: Decision | None) -> tuple[Candidate, ...]:
    """The nodes among which a PostFilter plugin chooses, as it tells extenders; none if it doesn't tell."""
    if decision is None or decision.diagnosis.verdicts is None:
        return ()
    profile = world.profiles[pod.scheduler_name].for_pod(pod)
    what_if = ProfileWhatIf(profile, world.state.nominations, world.rng)
    with world.trial():
        asking = run_post_filter(profile, decision.cycle, pod, decision.diagnosis, what_if, ask_extenders=True)
        try:
            asked = next(asking)
        except (StopIteration, PluginError):
            return ()
        finally:
            asking.close()
    return asked.candidates if isinstance(asked, ExtenderPreempt) else ()


def _text(candidate: Candidate) -> str:
    names = listed([f"{each.key} of priority {each.priority}" for each in candidate.victims], 3)
    violated = f", {candidate.violations:,} against a budget" if candidate.violations else ""
    return f"{candidate.node_name} (evicts {names}{violated})"
