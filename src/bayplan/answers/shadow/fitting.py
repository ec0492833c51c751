"""Which likely settings make a scheduler's bindings likely: those of the highest likelihood, with few changes.

A scheduler takes one of the best nodes at random; of a large cluster, it looks at a random share of the nodes. So each
configuration gives each binding a probability, and one under which all nodes are equal doesn't explain much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bayplan.answers.shadow.evidence import LikelyArguments, ScoredBinding
from bayplan.core.config import Catalog
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling.sampling import feasible_nodes_to_find

WEIGHTS = (1, 2, 3, 5, 10, 20, 50, 100)
"""The weights that a plugin is likely to have."""
DEFAULT_WEIGHTS = {each.name: each.weight or 1 for each in Catalog().defaults}
PERCENTAGES = (5, 10, 20, 30, 50, 75, 100)
"""Likely values of percentageOfNodesToScore."""
MOST_CHANGES = 3
"""How many settings a guess has at most."""
_BEAM = 3
"""How many of the best configurations are changed further."""
_BY_CHANCE = 0.1
"""The share of bindings that say nothing, such as those that were decided on another state."""
_PENALTY = 4.0
"""By how much the log likelihood has to grow for a setting more."""
_UNLIKELY = 0.05
"""How likely it is at least that all better nodes aren't looked at, where a binding fits."""

_NOTHING = np.zeros(0)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LikelyConfiguration:
    """A configuration as far as scores depend on it: the column and the weight of each plugin, and the share of nodes.

    `changed`: what was changed to get it. A weight of 0 is a score that is off.
    """

    columns: Mapping[str, str]
    weights: Mapping[str, int]
    percentage: int
    settings: tuple[str, ...] = ()
    changed: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, profile: Profile, names: Sequence[str]) -> LikelyConfiguration:
        """That of a profile. `names`: its Score plugins."""
        weights = {name: profile.weights.get(name, 1) for name in names}
        return cls({name: name for name in names}, weights, profile.percentage_of_nodes_to_score)

    def changes(self, arguments: Sequence[LikelyArguments]) -> Iterator[LikelyConfiguration]:
        """Yield the configurations with one setting more, the likeliest first."""
        for each in arguments:
            what = f"{each.plugin} arguments"
            if what not in self.changed:
                columns = {**self.columns, each.plugin: each.column}
                weights = {each.plugin: DEFAULT_WEIGHTS.get(each.plugin, 1), **self.weights}
                yield replace(self._with(each.settings, what), columns=columns, weights=weights)
        for name, weight in self.weights.items():
            what = f"{name} weight"
            if what not in self.changed:
                yield replace(self._with((f"{name}.score.enabled=false",), what), weights={**self.weights, name: 0})
                for new in WEIGHTS:
                    if new != weight:
                        weights = {**self.weights, name: new}
                        yield replace(self._with((f"{name}.weight={new}",), what), weights=weights)
        if "percentage" not in self.changed:
            for new in PERCENTAGES:
                if new != self.percentage:
                    changed = self._with((f"percentageOfNodesToScore={new}",), "percentage")
                    yield replace(changed, percentage=new)

    def _with(self, settings: Sequence[str], what: str) -> LikelyConfiguration:
        return replace(self, settings=(*self.settings, *settings), changed=self.changed | {what})


@dataclass(frozen=True, slots=True)
class FitOfConfiguration:
    """How well configurations explain bindings: the log likelihood of all, and which bindings fit; one row each."""

    likelihood: Floats
    fits: npt.NDArray[np.bool_]


def fit(
    configurations: Sequence[LikelyConfiguration], profile: Profile, bindings: Sequence[ScoredBinding]
) -> FitOfConfiguration:
    """Return how well each configuration explains each binding."""
    names = sorted({name for each in bindings for name in each.columns})
    weights = _weights(configurations, names)
    percentages = {profile.percentage_of_nodes_to_score, *PERCENTAGES}
    profiles = [replace(profile, percentage_of_nodes_to_score=each) for each in percentages]
    likelihood = np.zeros(len(configurations))
    fits = np.zeros((len(configurations), len(bindings)), dtype=np.bool_)
    for index, binding in enumerate(bindings):
        chance = np.zeros(len(configurations))
        if binding.theirs is not None:
            looked_at = {
                each.percentage_of_nodes_to_score: feasible_nodes_to_find(each, binding.nodes) for each in profiles
            }
            nothing = np.zeros(len(next(iter(binding.columns.values()))))
            share = np.array([looked_at[each.percentage] for each in configurations]) / binding.feasible
            totals = weights @ np.stack([binding.columns.get(name, nothing) for name in names])
            chance, fits[:, index] = _chances(totals, np.minimum(share, 1.0), binding)
        likelihood += np.log((1 - _BY_CHANCE) * chance + _BY_CHANCE / binding.feasible)
    return FitOfConfiguration(likelihood, fits)


def _weights(configurations: Sequence[LikelyConfiguration], names: Sequence[str]) -> Floats:
    """The weight of each column with each configuration."""
    weights, place = np.zeros((len(configurations), len(names))), {name: number for number, name in enumerate(names)}
    for row, each in enumerate(configurations):
        for plugin, column in each.columns.items():
            if column in place:
                weights[row, place[column]] = each.weights[plugin]
    return weights


def _chances(totals: Floats, share: Floats, binding: ScoredBinding) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The probability of the scheduler's node with each configuration, and whether it fits.

    `totals`: the scores of the nodes, one row for each configuration. `share`: the share of nodes that is looked at.
    """
    assert binding.theirs is not None
    mine, scale = totals[:, binding.theirs : binding.theirs + 1], binding.feasible / totals.shape[1]
    better = (totals > mine).sum(axis=1) * scale
    ties = ((totals == mine).sum(axis=1) - 1) * scale
    unseen: Floats = np.power(1 - share, better)
    return share * unseen / (1 + ties * share), unseen >= _UNLIKELY


def likeliest(
    profile: Profile, arguments: Sequence[LikelyArguments], bindings: Sequence[ScoredBinding]
) -> Iterator[LikelyConfiguration | None]:
    """Yield None after each part of the work, and at last the likeliest configuration, which may be the known one."""
    names = sorted({name for each in bindings for name in each.columns} - {each.column for each in arguments})
    arguments = [each for each in arguments if _matters(each, bindings)]
    known = LikelyConfiguration.of(profile, names)
    best: list[tuple[float, LikelyConfiguration]] = [
        (float(fit([known], profile, bindings).likelihood[0]), known),
    ]
    leaves = list(best)
    for _ in range(MOST_CHANGES):
        found = list(best)
        for _, each in leaves:
            more = list(each.changes(arguments))
            penalty = _PENALTY * (len(each.changed) + 1)
            likelihood = fit(more, profile, bindings).likelihood - penalty
            first = np.argsort(-likelihood, kind="stable")[:_BEAM]
            found += [(float(likelihood[position]), more[position]) for position in first]
            yield None
        found.sort(key=lambda each: -each[0])
        if found[0][1] is best[0][1]:
            break
        leaves = [each for each in found[:_BEAM] if each not in best]
        best = found[:_BEAM]
    yield best[0][1]


def _matters(arguments: LikelyArguments, bindings: Sequence[ScoredBinding]) -> bool:
    """Whether arguments give any node another score than the known ones."""
    plugin, column = arguments.plugin, arguments.column
    return any(
        not np.array_equal(each.columns.get(plugin, _NOTHING), each.columns[column])
        for each in bindings
        if each.theirs is not None
    )
