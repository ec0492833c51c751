"""Fingerprints in redacted topologies: those of the same pods, whose names are others.

A fingerprint is a hash of names. Which pods it counts is found by trying: those that run, and what an agent may have
seen before the scheduler, or after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Any

from bayplan.plugin import PodInfo, RedactedPods
from bayplan_plugins.node_resource_topology.demand import demand_of
from bayplan_plugins.node_resource_topology.fingerprints import PREFIX, fingerprint
from bayplan_plugins.node_resource_topology.topologies import (
    FINGERPRINT,
    FINGERPRINT_ANNOTATION,
    FINGERPRINT_METHOD,
    ONLY_EXCLUSIVE_METHOD,
    Topology,
    read,
)

_TRIES = 400
"""How many sets of pods are tried: each hashes the names of all pods of a node."""
_APART = 3
"""By how many pods an agent and the scheduler may differ."""
_OF_NOBODY = f"{PREFIX}{0:016x}"
"""The fingerprint of pods that aren't known: none has it."""


def keep_fingerprint(old: Mapping[str, Any], new: dict[str, Any], pods: RedactedPods) -> str:
    """Give a redacted topology the fingerprint that it has with the new names. Returns what is left out; "" if nothing.

    `old`: the topology as it was.
    """
    topology = read(old)
    if not topology.fingerprint:
        return ""
    counted = _counted(topology, pods.on(old["metadata"]["name"]))
    text = _OF_NOBODY if counted is None else fingerprint(map(pods.renamed, counted))
    if FINGERPRINT not in topology.attributes:
        new["metadata"]["annotations"] = {**(new["metadata"].get("annotations") or {}), FINGERPRINT_ANNOTATION: text}
    else:
        method = topology.attributes.get(FINGERPRINT_METHOD) == ONLY_EXCLUSIVE_METHOD
        attributes = [{"name": FINGERPRINT, "value": text}]
        attributes += [{"name": FINGERPRINT_METHOD, "value": ONLY_EXCLUSIVE_METHOD}] if method else []
        new["attributes"] = [*(new.get("attributes") or ()), *attributes]
    return "" if counted is not None else "fingerprints of pods that were not known"


def _counted(topology: Topology, pods: Sequence[PodInfo]) -> Sequence[PodInfo] | None:
    """Return the pods that a topology counts; None if they aren't found."""
    exclusive = [pod for pod in pods if demand_of(pod).exclusive(topology.resources)]
    for those in (pods, exclusive):
        for tried in islice(_likely(those), _TRIES):
            if fingerprint((pod.namespace, pod.name) for pod in tried) == topology.fingerprint:
                return tried
    return None


def _likely(pods: Sequence[PodInfo]) -> Iterator[Sequence[PodInfo]]:
    """Yield sets of pods, the likeliest first: those that run, then those with some pods more, or fewer.

    Of these, pods come first that start or end.
    """
    running = [pod for pod in pods if pod.phase != "Pending"]
    yield running
    yield pods
    odd = sorted(pods, key=lambda pod: pod.phase == "Running" and not pod.terminating)
    for number in range(1, _APART + 1):
        for others in combinations(odd, number):
            uids = {pod.uid for pod in others}
            yield [pod for pod in pods if (pod.phase != "Pending") != (pod.uid in uids)]
