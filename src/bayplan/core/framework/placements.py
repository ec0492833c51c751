"""Placements of gangs: generates them with a profile's plugins, and selects the best of those that a gang fits in.

Mirrors RunPlacementGeneratePlugins and RunPlacementScorePlugins (pkg/scheduler/framework/runtime/framework.go), and
findBestPlacement (pkg/scheduler/schedule_one_podgroup.go).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import call
from bayplan.core.framework.gangs import Gang, NormalizePlacementScores, Placement, PlacementBound
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.runner import checked, integer
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.foundations.failures import shown

NO_PLACEMENTS = Status.unschedulable("no feasible placements found")


def generate_placements(profile: Profile, gang: Gang, nodes: Nodes) -> Sequence[Placement] | Status | None:
    """Return the placements to try, at least one; None if the gang may use all nodes; a Status that rejects the gang.

    Only the first PlacementGenerate plugin of the profile is called. Raises PluginError.
    """
    for plugin in profile.at(Point.PLACEMENT_GENERATE):
        found = call(plugin, "PlacementGenerate", plugin.generate_placements, gang, nodes)
        if isinstance(found, Status):
            if not found.rejected:
                raise PluginError(plugin.name, "PlacementGenerate", found.message or str(found.code))
            return found.by(plugin.name)
        if found is not None and not all(isinstance(each, Placement) for each in found):
            raise PluginError(plugin.name, "PlacementGenerate", f"returned {shown(found)}, expected Placements")
        return NO_PLACEMENTS.by(plugin.name) if found is not None and not found else found
    return None


def best_placement(
    profile: Profile, gang: Gang, fitting: Sequence[tuple[Placement, Sequence[PodInfo]]], rng: random.Random
) -> int:
    """Return the index of the placement with the highest score; ties are broken at random.

    `fitting`: the placements that the gang fits in, with the members that have found a node there. Raises PluginError.
    """
    total: Int64 = np.zeros(len(fitting), dtype=np.int64)
    for plugin in profile.at(Point.PLACEMENT_SCORE):
        scores = np.array([_score(plugin, gang, placement, placed) for placement, placed in fitting], dtype=np.int64)
        if implements(plugin, NormalizePlacementScores):
            scores = call(plugin, "NormalizePlacementScore", plugin.normalize_placement_scores, gang, scores)
        total += checked(scores, plugin, "PlacementScore", len(fitting)) * profile.placement_weights.get(plugin.name, 1)
    return int(rng.choice(np.flatnonzero(total == total.max())))


def most_promising_first(
    profile: Profile, gang: Gang, placements: Sequence[Placement], rng: random.Random
) -> list[Placement] | None:
    """Return placements in the order of the highest score that each may get, equal ones at random; None if unknown.

    The first one in which all members find a node is the best, unless the gang fits in an earlier one, too. Raises
    PluginError.
    """
    totals = [0] * len(placements)
    for plugin in profile.at(Point.PLACEMENT_SCORE):
        if not implements(plugin, PlacementBound):
            return None
        weight = profile.placement_weights.get(plugin.name, 1)
        for position, placement in enumerate(placements):
            bound = call(plugin, "PlacementScore", plugin.placement_bound, gang, placement)
            if bound is None:
                return None
            totals[position] += integer(bound, plugin, "PlacementScore") * weight
    order = sorted(range(len(placements)), key=lambda position: (-totals[position], rng.random()))
    return [placements[position] for position in order]


def _score(plugin: Any, gang: Gang, placement: Placement, placed: Sequence[PodInfo]) -> int:
    score = call(plugin, "PlacementScore", plugin.score_placement, gang, placement, placed)
    if isinstance(score, Status) and score.code is Code.ERROR:
        raise PluginError(plugin.name, "PlacementScore", score.message)
    return integer(score, plugin, "PlacementScore")
