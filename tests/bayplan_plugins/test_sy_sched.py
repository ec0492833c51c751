"""SySched: upstream's tables, sizes of sets that agree with the sets themselves, and the contract."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.plugin import CustomObject, CycleState
from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.sy_sched import _PROFILES, SySched, SySchedArgs, calls_of, profile_at

ANNOTATION = "seccomp.security.alpha.kubernetes.io"


def table(name):
    return vectors("sy_sched", name)


def profiles():
    return {name: [*table("common"), *more] for name, more in table("profiles").items()}


def profile(name, calls, action="SCMP_ACT_ALLOW"):
    metadata = {"name": name, "namespace": "default"}
    return CustomObject(metadata=metadata, spec={"syscalls": [{"action": action, "names": list(calls)}]})


def path(name):
    return f"localhost/operator/default/{name}.json"


def pod(name, profile_name=None, where="pod", node=""):
    context = {"seccompProfile": {"type": "Localhost", "localhostProfile": path(profile_name)}}
    container = {"name": "c", **({"securityContext": context} if where == "container" else {})}
    spec = {"containers": [container], **({"securityContext": context} if where == "pod" and profile_name else {})}
    made = make_pod(name, node=node, spec=spec)
    if where != "annotation":
        return made
    metadata = replace(made.metadata, annotations={ANNOTATION: path(profile_name)})
    return PodInfo(replace(made.object, metadata=metadata))


def cluster(nodes, known):
    """The state of a cluster with pods of these profiles on its nodes, and the plugin there."""
    made = [make_node(f"n{at}") for at in range(len(nodes))]
    there = [
        pod(f"p{at}-{number}", name, node=f"n{at}")
        for at, names in enumerate(nodes)
        for number, name in enumerate(names)
    ]
    state = make_cluster(*made, *there, plugins=[]).state
    handle = OfflineHandle(state)
    for name, calls in known.items():
        handle.objects(_PROFILES).set(f"default/{name}", profile(name, calls))
    return state, SySched(SySchedArgs(defaultProfileName="full-seccomp"), handle)


@cases("case", table("TestParseNameNS"))
def test_paths(case):
    assert profile_at(case["path"]) == case["key"]


@pytest.mark.parametrize("odd", ["", "file.json", "/file.json", "default/.json", "default/"])
def test_paths_without_a_namespace_or_a_name_name_no_profile(odd):
    assert profile_at(odd) == ""


@cases("case", table("TestReadSPOProfileCR"))
def test_profiles(case):
    _, plugin = cluster([], profiles())
    assert plugin._read(case["key"]) == frozenset(profiles()[case["calls"]] if case["calls"] else ())


@cases("case", table("TestGetSyscalls"))
def test_calls_of_pods(case):
    _, plugin = cluster([], profiles())
    made = pod("p", "z-seccomp" if case["where"] else None, case["where"] or "pod")
    assert plugin._calls_of(made) == set(profiles()[case["calls"]])


@cases("case", table("TestScore"))
def test_upstreams_scores(case):
    state, plugin = cluster([["z-seccomp"]], profiles())
    assert plugin.score_nodes(CycleState(), pod("new", case["pod"]), state.nodes).tolist() == [case["score"]]


@cases("case", table("TestNormalizeScore"))
def test_upstreams_normalization(case):
    _, plugin = cluster([], profiles())
    assert plugin.normalize_scores(None, None, np.array(case["scores"]), None).tolist() == case["wanted"]


@cases("case", table("calls of nodes"))
def test_calls_of_nodes(case):
    state, plugin = cluster([case["pods"]], profiles())
    plugin.score_nodes(CycleState(), pod("new"), state.nodes)
    if "removed" in case:
        state.remove_pod(f"default-p0-{case['pods'].index(case['removed'])}")
    (code,) = plugin._codes.of(state.nodes).tolist()
    assert plugin._unions[code] == set().union(*(profiles()[name] for name in case["calls"]))


def test_pods_without_any_known_calls_have_no_opinion():
    state, plugin = cluster([["z"], []], {"z": ["read"]})
    scores = plugin.score_nodes(CycleState(), pod("new", "unknown"), state.nodes)
    assert plugin.normalize_scores(None, None, scores, None).tolist() == [100, 100]


def test_a_changed_profile_is_read_again():
    state, plugin = cluster([["z"], ["y"]], {"z": ["read"], "y": ["read", "write"]})
    assert plugin.score_nodes(CycleState(), pod("new", "z"), state.nodes).tolist() == [0, 1]
    plugin._profiles.set("default/z", profile("z", ["read", "write", "open"]))
    assert plugin.score_nodes(CycleState(), pod("new", "z"), state.nodes).tolist() == [0, 1]
    plugin._profiles.set("default/y", profile("y", []))
    assert plugin.score_nodes(CycleState(), pod("new", "z"), state.nodes).tolist() == [0, 3]


@pytest.mark.parametrize(
    "odd",
    [None, {}, {"spec": 3}, {"spec": {"syscalls": {}}}, {"spec": {"syscalls": [1, {"action": []}, {"names": "x"}]}}],
)
def test_odd_profiles_allow_nothing(odd):
    assert list(calls_of(odd)) == []


def test_denied_calls_are_not_among_those_of_a_profile():
    assert list(calls_of(profile("p", ["read"], "SCMP_ACT_ERRNO"))) == []


CALLS = ["a", "b", "c", "d", "e"]
known_profiles = st.fixed_dictionaries({name: st.sets(st.sampled_from(CALLS), min_size=1) for name in ("x", "y", "z")})


@settings(max_examples=30, derandomize=True, deadline=None)
@given(
    known_profiles,
    st.lists(st.lists(st.sampled_from("xyz"), max_size=4), min_size=1, max_size=4),
    st.sampled_from("xyz"),
)
def test_sizes_agree_with_the_sets(known, nodes, new):
    state, plugin = cluster(nodes, known)
    found = plugin.score_nodes(CycleState(), pod("new", new), state.nodes).tolist()
    assert [plugin.score(CycleState(), pod("new", new), state.nodes.info(at)) for at in range(len(nodes))] == found
    expected = []
    for names in nodes:
        there = set().union(*(known[name] for name in names))
        exposed = len(there - known[new]) if names else 0
        expected.append(exposed + sum(len((there | known[new]) - known[name]) for name in names))
    assert found == expected


def test_the_contract_holds():
    objects = [
        make_node("a"),
        make_node("b"),
        pod("there", "z", node="a"),
        (_PROFILES, profile("z", ["read", "write"])),
        (_PROFILES, profile("x", ["read"])),
    ]
    check_contract(SySched, objects=objects, pods=[pod("p", "x")], examples=40)
