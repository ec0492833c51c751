"""Pods and nodes with many fields, and random changes of documents: fields deleted, replaced and nested."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from workloads import HOSTNAME, amounts, node_affinity, pod

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["", "a", "1", "-1", "99999999999999999999", "1e30", "10Ei", "x/y", "..", "a b", "\x00", "é"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)),
    max_leaves=4,
)

GARBAGE_REPLIES = [
    b"<html><body>502 Bad Gateway</body></html>", b"", b"null", b"[]", b"{}", b"{", b'{"kind":', b"\xff\xfe\x00",
    b'{"metadata":{"uid":"x","resourceVersion":7}}', b'{"metadata":null}', b'"ok"', b"7",
]  # fmt: skip
GARBAGE = st.sampled_from(GARBAGE_REPLIES)


def changes() -> st.SearchStrategy[list[tuple[int, str, Any]]]:
    """Changes of a document: the index of a member, the operation, and its value."""
    one = st.tuples(st.integers(0, 10**4), st.sampled_from(["delete", "replace", "list", "map"]), JSON)
    return st.lists(one, max_size=3)


def mutated(document: Any, how: list[tuple[int, str, Any]]) -> Any:
    """A document with these changes."""
    holder = {"document": copy.deepcopy(document)}
    for number, what, value in how:
        places = list(_places(holder["document"])) or [(holder, "document")]
        parent, key = places[number % len(places)]
        if what == "delete":
            del parent[key]
            if parent is holder:
                return None
        else:
            parent[key] = {"replace": value, "list": [parent[key]], "map": {"x": parent[key]}}[what]
    return holder["document"]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each member of a document, as its parent and its key there."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in list(members):
        yield value, key
        yield from _places(member)


def good_node(number: int) -> dict[str, Any]:
    """A node with room for all pods."""
    name = f"good-{number}"
    room = amounts("1000", memory="1000Gi", most_pods="100000")
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {HOSTNAME: name, "tier": "good"}}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": room, "capacity": room}}


def good_pod(number: int) -> dict[str, Any]:
    """A pod for the good nodes only."""
    made = pod(f"good-{number}", "10m", affinity=node_affinity("tier", "In", "good"))
    made["metadata"].update(uid=f"uid-good-{number}", labels={"app": "good"}, creationTimestamp="2026-01-01T00:00:00Z")
    return made


def odd_node(number: int) -> dict[str, Any]:
    """A node with many fields, before it is changed."""
    node = good_node(number)
    name = f"odd-{number}"
    node["metadata"].update(name=name, uid=f"uid-{name}", labels={HOSTNAME: name, "zone": "a"}, annotations={"a": "b"})
    node["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}], "unschedulable": False}
    node["status"].update(
        images=[{"names": ["pause"], "sizeBytes": 10**9}],
        conditions=[{"type": "Ready", "status": "True"}],
        volumesAttached=[{"name": "v", "devicePath": "d"}],
    )
    node["status"]["allocatable"]["example.com/gpu"] = "4"
    return node


def odd_pod(number: int) -> dict[str, Any]:
    """A pod with many fields, before it is changed. It prefers odd nodes, and doesn't get in the way of good pods."""
    selector = {"matchLabels": {"app": "odd"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
    term = {"weight": 5, "podAffinityTerm": {"labelSelector": selector, "topologyKey": HOSTNAME}}
    preference = {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
    made = pod(
        f"odd-{number}",
        "100m",
        priority=0,
        nodeSelector={"zone": "a"} if number % 2 else {},
        tolerations=[{"key": "k", "operator": "Exists"}],
        affinity={
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]},
        },
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        ],
        overhead={"cpu": "1m"},
        initContainers=[{"name": "i", "image": "i", "restartPolicy": "Always"}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    container = made["spec"]["containers"][0]
    container["resources"]["limits"] = {"example.com/gpu": "1"} if number == 3 else {}
    container["ports"] = [{"containerPort": 80, "hostPort": 8000 + number, "protocol": "TCP", "hostIP": "0.0.0.0"}]
    made["metadata"].update(uid=f"uid-odd-{number}", labels={"app": "odd"}, generation=1, annotations={"a": "b"})
    made["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "x"}]}
    return made
