"""What a plugin says about its other methods holds for the class that says it, and not for subclasses of it."""

import pytest
from tests.support.tables import cases

from bayplan.core.framework import interface
from bayplan.core.framework.capabilities import ReplicaScores, SampledPreemption
from bayplan.core.framework.functions import score_plugin
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.profile import has_form, implements
from bayplan.core.framework.promises import reads_only_nodes, reads_pods
from bayplan.core.plugins.default_preemption.plugin import DefaultPreemption
from bayplan.core.plugins.node_affinity import NodeAffinity
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.core.plugins.registry import PLUGINS

FORMS = [
    interface.Sign,
    interface.EnqueueExtensions,
    interface.Explain,
    interface.ExplainPostFilter,
    interface.FilterNodes,
    interface.Filter,
    interface.ScoreNodes,
    interface.Score,
    ReplicaScores,
    SampledPreemption,
]


def method(self, *_):
    return None


def derived(base, *names, **others):
    return type("Derived", (base,), dict.fromkeys(names, method) | others)


def kept(base, cls):
    """The promises of a class that its subclass keeps, and those that it doesn't."""
    made = [form.__name__ for form in FORMS if has_form(base, form)]
    kept = [form.__name__ for form in FORMS if has_form(cls, form)]
    return sorted(set(made) - set(kept))


@cases(
    "base, names, lost",
    {
        "nothing is overridden": (PodTopologySpread, [], []),
        "what no promise is about": (PodTopologySpread, ["__init__", "post_bind"], []),
        "a reservation": (PodTopologySpread, ["reserve"], ["EnqueueExtensions"]),
        "scores": (PodTopologySpread, ["score_nodes"], ["ReplicaScores", "Sign"]),
        "normalized scores": (PodTopologySpread, ["normalize_scores"], ["ReplicaScores", "Sign"]),
        "data of scores": (PodTopologySpread, ["pre_score"], ["ReplicaScores", "Sign"]),
        "one node's score": (PodTopologySpread, ["score"], ["ReplicaScores", "ScoreNodes", "Sign"]),
        "a filter": (PodTopologySpread, ["filter_nodes"], ["EnqueueExtensions", "Explain", "Sign"]),
        "one node's filter": (
            PodTopologySpread,
            ["filter"],
            ["EnqueueExtensions", "Explain", "FilterNodes", "Sign"],
        ),
        "a signature alone doesn't cover what results rest on": (
            PodTopologySpread,
            ["score_nodes", "sign"],
            ["ReplicaScores", "Sign"],
        ),
        "all promises are made again": (PodTopologySpread, ["score_nodes", "sign", "rests_on"], ["ReplicaScores"]),
        "a new part of another plugin": (NodeResourcesFit, ["pre_enqueue"], ["EnqueueExtensions", "Explain"]),
        "evictions": (DefaultPreemption, ["post_filter"], ["ExplainPostFilter", "SampledPreemption", "Sign"]),
        "gates": (DefaultPreemption, ["pre_enqueue"], ["EnqueueExtensions"]),
    },
)
def test_subclass_keeps_only_promises_about_what_it_inherits(base, names, lost):
    assert kept(base, derived(base, *names)) == lost


def test_a_base_that_comes_first_overrides():
    class Mixin:
        score_nodes = method

    assert kept(PodTopologySpread, type("Mixed", (Mixin, PodTopologySpread), {})) == ["ReplicaScores", "Sign"]
    assert kept(PodTopologySpread, type("Mixed", (PodTopologySpread, Mixin), {})) == []


@pytest.mark.parametrize("name", PLUGINS)
def test_in_tree_plugins_keep_their_promises(name):
    cls = PLUGINS[name].factory
    assert [form.__name__ for form in FORMS if issubclass(cls, form) and not has_form(cls, form)] == []
    assert reads_only_nodes(cls) is not cls.reads_pods


class Own(Plugin):
    name = "Own"
    reads_pods = False
    filter = method


def test_other_verdicts_may_depend_on_pods():
    assert reads_only_nodes(NodeAffinity)
    assert not reads_only_nodes(derived(NodeAffinity, "filter"))
    assert reads_only_nodes(derived(NodeAffinity, "filter", reads_pods=False))
    assert reads_only_nodes(derived(NodeAffinity, "reserve"))
    assert reads_pods(derived(Own, "filter")())
    assert not reads_pods(Own())
    told = derived(Own, "filter")()
    told.reads_pods = False
    assert not reads_pods(told)


def test_functions_keep_their_promises():
    made = score_plugin(name="one", pure=True)(lambda pod, node: 1)
    assert implements(made, interface.Sign)
    assert implements(made, interface.Score)
