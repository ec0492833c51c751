"""CheckedCluster: a cluster with the manifests, as far as the search for mistakes reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from lightkube.models import core_v1, meta_v1

from bayplan.answers.insight.checking.fields import spec_of_pods_at
from bayplan.answers.insight.checking.findings import Finding, Given, GivenObjects
from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.insight.questions.request_changes import template_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.labels import LabelSelector
from bayplan.core.api.objects import UndecodableObject, convert
from bayplan.core.api.selectors import read_selector
from bayplan.core.cluster.pod_info import PodInfo

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """The pods of an object: itself, or those of a workload."""

    given: Given
    labels: Mapping[str, str]
    spec: core_v1.PodSpec

    def finding(self, rule: str, message: str, next_step: str, of: str) -> Finding:
        """Return a finding about a field `of` the pods' spec, such as `containers[0]`."""
        return self.given.finding(rule, message, next_step, f"{spec_of_pods_at(self.given.kind)}.{of}")


class CheckedCluster:
    """The objects of the manifests, and the pods and nodes of the cluster that has them."""

    def __init__(self, world: World, snapshot: Snapshot, given: GivenObjects) -> None:
        self._world, self.snapshot, self.given = world, snapshot, given

    def of_kind(self, kind: Kind) -> Iterator[tuple[Given, Document]]:
        """Yield the objects of the manifests of a kind, as the API server stores them."""
        for each in self.given:
            document = self.snapshot.document(each.kind, each.key) if each.kind == kind else None
            if document is not None:
                yield each, document

    @cached_property
    def templates(self) -> Sequence[Template]:
        """The pods of the manifests."""
        return [found for each in self.given if (found := self._template(each)) is not None]

    @cached_property
    def pods(self) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """The labels of all pods by namespace, with those that workloads would have if they had any."""
        found: dict[str, list[Mapping[str, str]]] = {}
        for pod in self.running:
            found.setdefault(pod.namespace, []).append(pod.labels)
        for kind in WORKLOADS:
            for key in self.snapshot.of_kind(kind):
                document = self.snapshot.document(kind, key)
                labels = ((document and template_of(kind, document)) or {}).get("metadata", {}).get("labels")
                if labels:
                    found.setdefault(key.partition("/")[0], []).append(labels)
        return found

    @cached_property
    def running(self) -> Sequence[PodInfo]:
        """All pods that haven't ended."""
        self._world.reset()
        return list(self._world.state.objects[POD].values())

    @cached_property
    def nodes(self) -> Mapping[str, Any]:
        """All nodes by name."""
        found: Mapping[str, Any] = self._world.state.objects[NODE]
        return found

    @cached_property
    def node_labels(self) -> Mapping[str, set[str]]:
        """The labels of all nodes, with their values."""
        found: dict[str, set[str]] = {}
        for node in self.nodes.values():
            for key, value in (node.metadata.labels or {}).items():
                found.setdefault(key, set()).add(value)
        return found

    def matches(self, selector: LabelSelector, namespace: str) -> bool:
        """Return whether a selector matches any pods of a namespace, or of workloads without pods."""
        return any(selector.matches(labels) for labels in self.pods.get(namespace, ()))

    def _template(self, given: Given) -> Template | None:
        document = self.snapshot.document(given.kind, given.key)
        if document is None or given.kind not in {POD, *WORKLOADS}:
            return None
        pod = document if given.kind is POD else template_of(given.kind, document) or {}
        try:
            spec = convert(core_v1.PodSpec, pod.get("spec") or {})
        except (UndecodableObject, msgspec.ValidationError):
            return None  # the API server refuses it, which is a finding
        return Template(given, (pod.get("metadata") or {}).get("labels") or {}, spec)


def selector_of(document: Document, field: str = "selector") -> LabelSelector | None:
    """Return the label selector of an object; None if it has none, or an empty one, which is meant to match all."""
    found = (document.get("spec") or {}).get(field)
    if not found:
        return None
    if "matchLabels" not in found and "matchExpressions" not in found:
        found = {"matchLabels": found}  # as a Service has it
    selector = read_selector(found)
    return selector if selector.requirements else None


def as_selector(selector: meta_v1.LabelSelector | None) -> str:
    """Return a label selector object as kubectl shows it."""
    labels = [f"{key}={value}" for key, value in ((selector and selector.matchLabels) or {}).items()]
    others = [f"{each.key} {each.operator}" for each in ((selector and selector.matchExpressions) or ())]
    return ",".join([*labels, *others])
