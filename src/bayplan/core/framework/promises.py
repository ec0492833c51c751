"""Promises: what a plugin says about its other methods, such as `sign`. They hold for the class that makes them.

    class Spread(PodTopologySpread):            # it inherits `sign`, `rests_on`, `events` and `replica_kinds`
        def score_nodes(self, ...): ...         # but what these say was said about another `score_nodes`

A subclass that overrides a method hasn't promised anything about it. The promise counts again once the subclass makes
it, too, if only by `sign, rests_on = PodTopologySpread.sign, PodTopologySpread.rests_on`. `profile.implements` asks
here, so that nothing else needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from bayplan.core.framework import capabilities, interface

_FILTERING = "pre_filter", "filter", "filter_nodes"
_SCORING = "pre_score", "score", "score_nodes", "normalize_scores"
_REJECTING = "pre_enqueue", *_FILTERING, "reserve", "permit", "generate_placements"

_SHARED = ("sign", "rests_on"), (*_FILTERING, *_SCORING, "post_filter")
_PROMISES: Mapping[type[Any], tuple[tuple[str, ...], tuple[str, ...]]] = {
    interface.Sign: _SHARED,  # without `rests_on`, a signature would promise more
    interface.EnqueueExtensions: (("events",), _REJECTING),
    interface.Explain: (("explain",), ("pre_enqueue", *_FILTERING)),
    interface.ExplainPostFilter: (("explain_post_filter",), ("post_filter",)),
    capabilities.RejectsAgain: (("rejects_again", "may_make_room"), ("post_filter",)),
    capabilities.HelpedOnNode: (("helped_on",), ("events", *_FILTERING)),
    capabilities.SampledPreemption: (("rows_to_try", "candidates_to_find"), ("post_filter",)),
    capabilities.ReplicaScores: (("replica_kinds", "count_replica"), _SCORING),
    # Of two forms of one method, the one that is overridden counts.
    interface.FilterNodes: (("filter_nodes",), ("filter",)),
    interface.Filter: (("filter",), ("filter_nodes",)),
    interface.ScoreNodes: (("score_nodes",), ("score",)),
    interface.Score: (("score",), ("score_nodes",)),
}
"""By protocol: the methods that make a promise, and the methods that it is about."""


def keeps(cls: type[Any], form: type[Any]) -> bool:
    """Return whether a class that has the methods of a protocol promises what these say about its other methods."""
    return form not in _PROMISES or _made_for(cls, *_PROMISES[form])


def reads_pods(plugin: Any) -> bool:
    """Return whether what a plugin says about a node may depend on the pods there. It does unless it says no."""
    own = getattr(plugin, "__dict__", {})
    return bool(own["reads_pods"]) if "reads_pods" in own else not reads_only_nodes(type(plugin))


def _reads_only_nodes(cls: type[Any]) -> bool:
    return not cls.reads_pods and _made_for(cls, ("reads_pods",), (*_FILTERING, *_SCORING))


reads_only_nodes: Callable[[Any], bool] = lru_cache(maxsize=4096)(_reads_only_nodes)
"""Whether a class promises that what it says about a node doesn't depend on the pods there."""


def _made_for(cls: type[Any], promise: Iterable[str], about: Iterable[str]) -> bool:
    """Return whether no class overrides what a promise is about without making the promise."""
    made = max(_place(cls, name, -1) for name in promise)
    return all(_place(cls, name, made) >= made for name in about)


def _place(cls: type[Any], name: str, absent: int) -> int:
    """Return the place of the class that defines a method among the bases, the most derived one first."""
    return next((place for place, base in enumerate(cls.__mro__) if name in vars(base)), absent)
