"""Topics only save calls: the hint of a pod without any topic of an event says that the event doesn't help."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM
from bayplan.core.api.objects import convert
from bayplan.core.framework.events import POD, Action, EventHint, Hint
from bayplan.testing.builders import make_cluster, make_pod

values = st.sampled_from(["web", "db"])
requirements = st.one_of(
    st.builds(lambda value: {"key": "app", "operator": "In", "values": [value]}, values),
    st.builds(lambda value: {"key": "app", "operator": "NotIn", "values": [value]}, values),
    st.sampled_from([{"key": "tier", "operator": "Exists"}, {"key": "tier", "operator": "DoesNotExist"}]),
    st.just({"key": "app", "operator": "Invalid"}),
)
selectors = st.builds(lambda each: {"matchExpressions": each}, st.lists(requirements, max_size=2))
claims = st.sampled_from(["a-data", "b-data"])
volumes = st.lists(
    st.one_of(
        st.builds(lambda name: {"name": "claim", "persistentVolumeClaim": {"claimName": name}}, claims),
        st.just({"name": "data", "ephemeral": {}}),
        st.builds(lambda name: {"name": "disk", "gcePersistentDisk": {"pdName": name}}, values),
        st.just({"name": "plain", "emptyDir": {}}),
    ),
    max_size=2,
)
terms = st.lists(st.builds(lambda each: {"topologyKey": "zone", "labelSelector": each}, selectors), max_size=2)


@st.composite
def pods(draw):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    kinds = ("podAffinity", "podAntiAffinity")
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return make_pod(
        draw(st.sampled_from(["a", "b"])),
        namespace=draw(st.sampled_from(["default", "other"])),
        node=draw(st.sampled_from(["", "n"])),
        labels=draw(st.dictionaries(st.sampled_from(["app", "tier"]), values)),
        host_ports=draw(st.sampled_from([[], [80], [81]])),
        cpu=draw(st.sampled_from(["1", "2"])),
        spec={
            "volumes": draw(volumes),
            "affinity": {kind: {required: draw(terms)} for kind in kinds},
            "topologySpreadConstraints": [
                {**spread, "labelSelector": each} for each in draw(st.lists(selectors, max_size=1))
            ],
        },
    )


def hints_for(kind: str) -> list[EventHint]:
    registered = [hint for hints in make_cluster().profile.events().values() for hint in hints]
    return [hint for hint in registered if hint.topics is not None and hint.event.resource == kind]


@settings(max_examples=700)
@given(st.sampled_from(hints_for(POD)), pods(), pods(), pods())
def test_hint_skips_pods_without_a_topic_of_the_event(hint, pod, first, second):
    action = hint.event.action
    changes = [(None, first)] if Action.ADD in action else []
    changes += [(first, None)] if Action.DELETE in action else []
    changes += [(first, second)] if action & Action.UPDATE else []
    for old, new in changes:
        topics = hint.topics.of_event(old, new)
        if topics is not None and not set(topics) & set(hint.topics.of_pod(pod)):
            assert hint.hint(pod, old, new) is Hint.SKIP


@given(
    st.sampled_from(hints_for(PERSISTENT_VOLUME_CLAIM.kind)),
    pods(),
    claims,
    st.sampled_from(["default", "other", None]),
)
def test_only_pods_with_a_topic_of_the_claim_use_it(hint, pod, name, namespace):
    claim = convert(PERSISTENT_VOLUME_CLAIM.type, {"metadata": {"name": name, "namespace": namespace}})
    if not set(hint.topics.of_event(None, claim)) & set(hint.topics.of_pod(pod)):
        assert hint.hint(pod, None, claim) is Hint.SKIP


def test_hints_of_four_plugins_look_for_claims():
    assert len(hints_for(PERSISTENT_VOLUME_CLAIM.kind)) == 4
