"""The pods of a DaemonSet and the nodes that they belong on, without effects.

Mirrors pkg/controller/daemon/util/daemonset_util.go and NodeShouldRunDaemonPod in daemon_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from lightkube.models.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)

from bayplan.core.api import tolerations
from bayplan.core.api.kinds import DAEMON_SET
from bayplan.core.api.selectors import RequiredNodeAffinity
from bayplan.core.api.served import DaemonSet, Node, Pod
from bayplan.core.expansion import pods
from bayplan.core.expansion.pods import REVISION_HASH

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation of a DaemonSet that counts the changes of its template."""
POD_TEMPLATE_GENERATION = "pod-template-generation"
"""The label of pods with that number."""
NODE_NAME_FIELD = "metadata.name"

_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (tolerations.UNSCHEDULABLE_TAINT, "NoSchedule"),
)
_NETWORK_UNAVAILABLE = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which nodes a DaemonSet's pods belong on."""

    node_name: str
    """The only node that the template allows, "" for any."""
    affinity: RequiredNodeAffinity
    tolerated: tolerations.Tolerations

    @classmethod
    def of(cls, daemon_set: DaemonSet) -> Eligibility:
        """The placement of the template."""
        spec = daemon_set.spec.template.spec
        tolerated = tolerations.parse(pod_tolerations(spec))
        return cls(spec.nodeName or "", RequiredNodeAffinity.of(spec), tolerated)

    def judge(self, node: Node) -> DaemonVerdict:
        """Whether the node should get a pod, and whether it may keep one."""
        metadata = node.metadata
        if self.node_name not in {"", metadata.name} or not self.affinity.matches(metadata.labels or {}, metadata.name):
            return DaemonVerdict(run=False, stay=False)
        taints = [(one.key, one.value or "", one.effect) for one in (node.spec.taints if node.spec else None) or ()]
        evicting = [one for one in taints if one[2] == tolerations.NO_EXECUTE]
        return DaemonVerdict(
            run=tolerations.tolerate_scheduling(self.tolerated, taints),
            stay=tolerations.tolerate_scheduling(self.tolerated, evicting),
        )


@dataclass(frozen=True, slots=True)
class DaemonVerdict:
    """Whether a DaemonSet should `run` a new pod on a node, and whether an existing one may `stay`."""

    run: bool
    stay: bool


def pod_tolerations(spec: PodSpec) -> list[Toleration]:
    """The template's tolerations and those of every daemon pod, which tolerates node problems."""
    given = list(spec.tolerations or ())
    present = {(one.key, one.effect, one.operator, one.value or "") for one in given}
    added = (*_TOLERATED, *((_NETWORK_UNAVAILABLE,) if spec.hostNetwork else ()))
    return given + [
        Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in added
        if (key, effect, "Exists", "") not in present
    ]


def new_pod(daemon_set: DaemonSet, digest: str, node: str) -> Pod:
    """A new pod for a node. The scheduler binds it; its affinity matches only this node."""
    template = daemon_set.spec.template
    pod = pods.from_template(template, DAEMON_SET, daemon_set)
    generation = template_generation(daemon_set)
    marks = {REVISION_HASH: digest} | ({POD_TEMPLATE_GENERATION: generation} if generation is not None else {})
    pod.metadata.labels = (pod.metadata.labels or {}) | marks
    pod.spec.tolerations = pod_tolerations(template.spec)
    pod.spec.affinity = pinned_to(node, template.spec.affinity)
    return pod


def pinned_to(node: str, affinity: Affinity | None) -> Affinity:
    """The affinity with a requirement of this node in place of the required terms."""
    requirement = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=[node])
    selector = NodeSelector(nodeSelectorTerms=[NodeSelectorTerm(matchFields=[requirement])])
    affinity = affinity or Affinity()
    node_affinity = msgspec.structs.replace(
        affinity.nodeAffinity or NodeAffinity(), requiredDuringSchedulingIgnoredDuringExecution=selector
    )
    return msgspec.structs.replace(affinity, nodeAffinity=node_affinity)


def target_node(pod: Pod) -> str | None:
    """The node that a pod is bound to or made for, None if it names no single node."""
    if pod.spec.nodeName:
        return pod.spec.nodeName
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    for term in (required.nodeSelectorTerms if required else None) or ():
        for one in term.matchFields or ():
            if one.key == NODE_NAME_FIELD and one.operator == "In":
                return one.values[0] if one.values and len(one.values) == 1 else None
    return None


def by_node(owned: Sequence[Pod]) -> dict[str, list[Pod]]:
    """The pods by their nodes, in the order of `by_age`, without those that have ended and are being deleted."""
    nodes: dict[str, list[Pod]] = {}
    for pod in by_age(owned):
        node = target_node(pod)
        if node is not None and not (pods.is_finished(pod) and pods.is_terminating(pod)):
            nodes.setdefault(node, []).append(pod)
    return nodes


def by_age(owned: Sequence[Pod]) -> list[Pod]:
    """Bound pods first, then the oldest first."""
    return sorted(
        owned, key=lambda one: (not one.spec.nodeName, one.metadata.creationTimestamp or _LONG_AGO, one.metadata.name)
    )


def is_updated(daemon_set: DaemonSet, pod: Pod, digest: str) -> bool:
    """Whether the pod was made from the present template."""
    labels = pod.metadata.labels or {}
    generation = template_generation(daemon_set)
    same_generation = generation is not None and labels.get(POD_TEMPLATE_GENERATION) == generation
    return same_generation or labels.get(REVISION_HASH) == digest


def template_generation(daemon_set: DaemonSet) -> str | None:
    """The number in the deprecated annotation, None for none."""
    text = (daemon_set.metadata.annotations or {}).get(TEMPLATE_GENERATION, "")
    return text if text.isascii() and text.isdigit() else None
