#!/usr/bin/env python3
"""Measures how long the decision core takes for the most expensive pods that an API server accepts.

    benchmarks/worst_pods.py                 # 5,000 nodes, 20,000 running pods of 500 apps
    benchmarks/worst_pods.py --unique        # the same, and each running pod has a label value of its own

The benchmark prints the CPU milliseconds of the first decision, in which nothing is cached yet, and of the second one.

    benchmarks/worst_pods.py --claims        # the most expensive claims for devices: 10 nodes of 128 devices

With --claims, a pod with one claim is scheduled on a running cluster while other pods are created one after the other.
The benchmark prints the CPU seconds of the decision by itself, then the seconds until the pod is reported as
unschedulable in the running cluster, the longest time until one of the others was bound meanwhile, and the longest
time until the scheduler's event loop answered, as it does for /livez.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from bayplan import PodInfo
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profile, parse_configuration
from bayplan.core.scheduling import decide
from bayplan.foundations.heap import keep_heap
from bayplan.testing import make_node, make_pod

APPS, ZONES = 500, 10
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
Selector = dict[str, Any]
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def main() -> None:
    """Fill a cluster, decide the pods of all cases, and print the times."""
    options = _options()
    keep_heap()
    if options.claims or options.terms:
        import worst_claims  # beside this file, which tests import as a part of a package
        import worst_terms

        (worst_claims if options.claims else worst_terms).measure(options.only)
        return
    state = _cluster(options.nodes, options.pods, unique=options.unique)
    profile = build_profile(parse_configuration(CONFIGURATION).profiles[0], OfflineHandle(state))
    gc.collect()
    gc.freeze()  # like the scheduler once it knows the cluster

    def milliseconds(pod: PodInfo) -> float:
        began = time.process_time()
        decide(profile, state, pod, random.Random(0))
        return 1000 * (time.process_time() - began)

    print(f"{options.nodes} nodes, {state.pod_count} running pods{' with unique labels' if options.unique else ''}")
    for name, make in CASES.items():
        if options.only in name:
            # A selector that is seen for the first time costs more than all later ones, so each case has its own.
            print(f"{name:58} {milliseconds(make()):10.1f} {milliseconds(make()):10.1f} ms", flush=True)
    if options.only in "a plain pod, while pods with 500 matching terms each run":
        for number in range(10):
            crowd = _away("crowd", HOSTNAME, [_not_in(f"crowd-{number}-{each}") for each in range(500)])
            state.assume(crowd, f"node-{number}")
        pod = _pod("guest", cpu="100m")
        times = milliseconds(pod), milliseconds(pod)
        print(f"{'a plain pod, while pods with 500 matching terms each run':58} {times[0]:10.1f} {times[1]:10.1f} ms")


def _cluster(nodes: int, pods: int, *, unique: bool) -> ClusterState:
    state = ClusterState()
    for number in range(nodes):
        state.set_node(make_node(f"node-{number}", labels={ZONE: f"zone-{number % ZONES}", **OWN_KEYS}))
    for number in range(pods):
        labels = {"app": f"app-{number % APPS}", **({"pod": f"p{number}"} if unique else {})}
        state.set_pod(make_pod(f"p{number}", cpu="100m", memory="10Mi", node=f"node-{number % nodes}", labels=labels))
    return state


OWN_KEYS = {f"key-{number}": "yes" for number in range(20)}
"""Labels that nodes have, apart from the usual ones."""


def _pod(kind: str, **fields: Any) -> PodInfo:
    return make_pod(f"{kind}-{next(_NUMBERS)}", labels={"app": "app-1", "kind": kind}, **fields)


_NUMBERS = iter(range(10**9))


def _app(number: int, kind: str) -> Selector:
    """Select the pods of an app. Cases have selectors of their own, which no case before has made known."""
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"app-{number}", kind]}]}


def _other(number: int) -> Selector:
    return {"matchLabels": {"app": f"absent-{number}"}}


def _not_in(value: str) -> Selector:
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [value]}]}


def _terms(key: str, selectors: Sequence[Selector]) -> list[dict[str, Any]]:
    return [{"topologyKey": key.format(number), "labelSelector": each} for number, each in enumerate(selectors)]


def _required(side: str, kind: str, key: str, selectors: Sequence[Selector], **fields: Any) -> PodInfo:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": _terms(key, selectors)}
    return _pod(kind, cpu="100m", affinity={side: terms}, **fields)


def _away(kind: str, key: str, selectors: Sequence[Selector], **fields: Any) -> PodInfo:
    return _required("podAntiAffinity", kind, key, selectors, **fields)


def _near(kind: str, key: str, selectors: Sequence[Selector], **fields: Any) -> PodInfo:
    return _required("podAffinity", kind, key, selectors, **fields)


def _preferring(kind: str, key: str, selectors: Sequence[Selector]) -> PodInfo:
    weighted = [
        {"weight": 1 + number % 100, "podAffinityTerm": term} for number, term in enumerate(_terms(key, selectors))
    ]
    return _pod(kind, affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}})


def _spread(kind: str, key: str, selectors: Sequence[Selector], action: str = "DoNotSchedule") -> PodInfo:
    constraints = [
        {"topologyKey": key.format(number), "labelSelector": each, "maxSkew": 5, "whenUnsatisfiable": action}
        for number, each in enumerate(selectors)
    ]
    return _pod(kind, spread=constraints)


def _on_nodes(kind: str, expression: Callable[[int, int], dict[str, Any]], *, required: bool = True) -> PodInfo:
    terms = [{"matchExpressions": [expression(term, index) for index in range(5)]} for term in range(2000)]
    if required:
        return _pod(
            kind,
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        )
    weighted = [{"weight": 1, "preference": term} for term in terms]
    return _pod(kind, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}})


def _own_key(term: int, index: int) -> dict[str, Any]:
    return {"key": f"own-{term}-{index}", "operator": "In", "values": ["a"]}


def _without_own_key(term: int, index: int) -> dict[str, Any]:
    return {"key": f"own-{term}-{index}", "operator": "NotIn", "values": ["a"]}


def _known_key(term: int, index: int) -> dict[str, Any]:
    return {"key": HOSTNAME, "operator": "In", "values": [f"node-{term}", f"node-{index}"]}


CASES: dict[str, Callable[[], PodInfo]] = {
    "a plain pod": lambda: _pod("plain"),
    "300 preferred affinity terms": lambda: _preferring("a", ZONE, [_app(n, "a") for n in range(300)]),
    "300 preferred affinity terms, no pod matches": lambda: _preferring("b", HOSTNAME, [_other(n) for n in range(300)]),
    "300 preferred affinity terms, all pods match": lambda: _preferring(
        "c", HOSTNAME, [_not_in(f"c{n}") for n in range(300)]
    ),
    "500 anti-affinity terms": lambda: _away("d", HOSTNAME, [_app(n, "d") for n in range(2, 502)]),
    "500 anti-affinity terms, no pod matches": lambda: _away("e", HOSTNAME, [_other(n) for n in range(1000, 1500)]),
    "500 anti-affinity terms, all pods match": lambda: _away("f", HOSTNAME, [_not_in(f"f{n}") for n in range(500)]),
    "500 anti-affinity terms, own topology keys": lambda: _away("g", "own-{}", [_app(n, "g") for n in range(500)]),
    "500 anti-affinity terms, priority 1000": lambda: _away(
        "h", HOSTNAME, [_not_in(f"h{n}") for n in range(500)], priority=1000
    ),
    "500 affinity terms, all pods match": lambda: _near("i", ZONE, [_not_in(f"i{n}") for n in range(500)]),
    "500 spread constraints, own topology keys": lambda: _spread("j", "own-{}", [_app(n, "j") for n in range(500)]),
    "500 spread constraints, own keys, no pod matches": lambda: _spread(
        "k", "own-k-{}", [_other(n) for n in range(2000, 2500)]
    ),
    "500 soft spread constraints, own topology keys": lambda: _spread(
        "l", "own-l-{}", [_not_in(f"l{n}") for n in range(500)], "ScheduleAnyway"
    ),
    "20 spread constraints, known keys, all pods match": lambda: _spread(
        "m", "key-{}", [_not_in(f"m{n}") for n in range(20)]
    ),
    "2,000 node selector terms of 5 own keys": lambda: _on_nodes("n", _own_key),
    "2,000 node selector terms without 5 own keys": lambda: _on_nodes("o", _without_own_key),
    "2,000 node selector terms of 5 host names": lambda: _on_nodes("q", _known_key),
    "2,000 preferred node terms without 5 own keys": lambda: _on_nodes("r", _without_own_key, required=False),
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--unique", action="store_true", help="give each running pod a label value of its own")
    parser.add_argument("--claims", action="store_true", help="measure claims for devices instead")
    parser.add_argument("--terms", action="store_true", help="measure many pods with many affinity terms instead")
    parser.add_argument("--only", default="", help="run the cases with this text in their names")
    return parser.parse_args()


if __name__ == "__main__":
    main()
