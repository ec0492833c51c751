"""Topics only save calls: the hint of a pod without any topic of an event says that the event doesn't help."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.framework.events import POD, Action, Hint
from bayplan.testing.builders import make_cluster, make_pod

values = st.sampled_from(["web", "db"])
requirements = st.one_of(
    st.builds(lambda value: {"key": "app", "operator": "In", "values": [value]}, values),
    st.builds(lambda value: {"key": "app", "operator": "NotIn", "values": [value]}, values),
    st.sampled_from([{"key": "tier", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"}]),
    st.just({"key": "app", "operator": "Invalid"}),
)
selectors = st.builds(lambda each: {"matchExpressions": each}, st.lists(requirements, max_size=2))
terms = st.lists(st.builds(lambda each: {"topologyKey": "zone", "labelSelector": each}, selectors), max_size=2)


@st.composite
def pods(draw):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    kinds = ("podAffinity", "podAntiAffinity")
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return make_pod(
        draw(st.sampled_from(["a", "b"])),
        node=draw(st.sampled_from(["", "n"])),
        labels=draw(st.dictionaries(st.sampled_from(["app", "tier"]), values)),
        host_ports=draw(st.sampled_from([[], [80], [81]])),
        cpu=draw(st.sampled_from(["1", "2"])),
        spec={
            "affinity": {kind: {required: draw(terms)} for kind in kinds},
            "topologySpreadConstraints": [
                {**spread, "labelSelector": each} for each in draw(st.lists(selectors, max_size=1))
            ],
        },
    )


HINTS = [
    hint
    for hints in make_cluster().profile.events().values()
    for hint in hints
    if hint.topics is not None and hint.event.resource == POD
]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(HINTS), pods(), pods(), pods())
def test_hint_skips_pods_without_a_topic_of_the_event(hint, pod, first, second):
    action = hint.event.action
    changes = [(None, first)] if Action.ADD in action else []
    changes += [(first, None)] if Action.DELETE in action else []
    changes += [(first, second)] if action & Action.UPDATE else []
    for old, new in changes:
        topics = hint.topics.of_event(old, new)
        if topics is not None and not set(topics) & set(hint.topics.of_pod(pod)):
            assert hint.hint(pod, old, new) is Hint.SKIP
