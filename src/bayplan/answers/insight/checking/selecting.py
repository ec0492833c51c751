"""Mistakes with selectors: those that match nothing, or more than they should."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from bayplan.answers.insight.checking.cluster import CheckedCluster, Template, as_selector, selector_of
from bayplan.answers.insight.checking.findings import Finding
from bayplan.answers.insight.owners import WORKLOADS
from bayplan.core.api.field_errors import join
from bayplan.core.api.kinds import JOB, NETWORK_POLICY, POD_DISRUPTION_BUDGET, SERVICE, Kind
from bayplan.core.api.labels import LabelSelector
from bayplan.core.api.selectors import RequiredNodeAffinity, selector_or_nothing
from bayplan.core.api.suggestions import did_you_mean

_SELECTING: dict[Kind, str] = {SERVICE: "selector", POD_DISRUPTION_BUDGET: "selector", NETWORK_POLICY: "podSelector"}
"""The kinds that select pods, and the field by which they do."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_WORKLOADS = 1_000
"""Of more workloads in a namespace, no pairs are compared."""


def selectors_without_pods(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield Services, budgets and policies whose selector matches no pods."""
    for kind, field in _SELECTING.items():
        for given, document in cluster.of_kind(kind):
            selector, namespace = selector_of(document, field), given.key.partition("/")[0]
            if selector is not None and not cluster.matches(selector, namespace):
                hint = _similar(cluster, selector, namespace)
                message = f"{field} {selector_text(selector)} matches no pods of namespace {namespace}{hint}"
                step = "select labels that the pod template has"
                yield given.finding("selector-matches-nothing", message, step, f"spec.{field}")


def affinities_without_pods(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield required pod affinities that match no pods, the pod itself included."""
    for template in cluster.templates:
        affinity = template.spec.affinity and template.spec.affinity.podAffinity
        for number, term in enumerate((affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution) or ()):
            if term.namespaceSelector is not None:
                continue
            selector = selector_or_nothing(term.labelSelector)
            namespaces = term.namespaces or [template.given.key.partition("/")[0]]
            if not any(cluster.matches(selector, each) for each in namespaces):
                hint = _similar(cluster, selector, namespaces[0])
                message = f"its required podAffinity to {as_selector(term.labelSelector)} matches no pods{hint}"
                step = "select labels of pods that exist, or apply those pods first"
                yield template.finding(
                    "affinity-matches-nothing", message, step, f"affinity.podAffinity.{_REQUIRED}[{number}]"
                )


def spreads_without_themselves(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield spread constraints that don't count the pods that have them."""
    for template in cluster.templates:
        for number, constraint in enumerate(template.spec.topologySpreadConstraints or ()):
            if not selector_or_nothing(constraint.labelSelector).matches(template.labels):
                what = as_selector(constraint.labelSelector) or "nothing"
                message = f"its spread over {constraint.topologyKey} counts {what}, which its own pods are not"
                labels = ", ".join(f"{key}: {value}" for key, value in template.labels.items())
                step = f"let labelSelector match the template's labels ({labels})"
                yield template.finding(
                    "spread-misses-itself", message, step, f"topologySpreadConstraints[{number}].labelSelector"
                )


def labels_of_no_node(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield node selectors that name a label, or a value, that no node has."""
    known = cluster.node_labels
    for template in cluster.templates:
        for key, value in (template.spec.nodeSelector or {}).items():
            if value in known.get(key, ()):
                continue
            hint = did_you_mean(value, known[key]) if key in known else did_you_mean(key, known)
            message, step = f"no node has the label {key}={value}{hint}", _label_step(known.get(key, ()))
            yield template.finding("no-node-has-label", message, step, join("nodeSelector", key))
        yield from _affinity_of_no_node(cluster, template)


def _affinity_of_no_node(cluster: CheckedCluster, template: Template) -> Iterator[Finding]:
    selector = RequiredNodeAffinity.of(template.spec).selector
    nodes = {name: node.metadata.labels or {} for name, node in cluster.nodes.items()}
    if selector is not None and nodes and not any(selector.matches(labels, name) for name, labels in nodes.items()):
        message = f"no node matches its required nodeAffinity: {selector}"
        yield template.finding("no-node-has-label", message, _label_step(()), f"affinity.nodeAffinity.{_REQUIRED}")


def _label_step(values: Iterable[str]) -> str:
    shown = sorted(values)[:5]
    return f"name a value that nodes have: {', '.join(shown)}" if shown else "kubectl get nodes --show-labels lists all"


def tolerations_of_no_taint(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield tolerations of a taint that no node has, if nodes have one with a similar name."""
    taints = {taint.key for node in cluster.nodes.values() for taint in (node.spec and node.spec.taints) or ()}
    for template in cluster.templates:
        for number, toleration in enumerate(template.spec.tolerations or ()):
            if toleration.key and toleration.key not in taints and (hint := did_you_mean(toleration.key, taints)):
                message = f"no node has the taint {toleration.key} that it tolerates{hint}"
                step = "correct the key of the toleration"
                yield template.finding("tolerates-no-taint", message, step, f"tolerations[{number}].key")


def overlapping_selectors(cluster: CheckedCluster) -> Iterator[Finding]:
    """Yield findings about workloads of the manifests that select the same pods as another workload."""
    by_namespace: dict[str, list[tuple[str, LabelSelector, dict[str, str]]]] = {}
    for kind in WORKLOADS:
        for key in cluster.snapshot.of_kind(kind) if kind.kind in _SELECT_PODS else ():
            document = cluster.snapshot.document(kind, key) or {}
            metadata, selector = document.get("metadata") or {}, selector_of(document)
            labels = ((document.get("spec") or {}).get("template") or {}).get("metadata", {}).get("labels") or {}
            if selector is not None and not metadata.get("ownerReferences"):
                found = by_namespace.setdefault(key.partition("/")[0], [])
                found.append((f"{kind.singular} {key}", selector, labels))
    titles = {each.title: each for each in cluster.given}
    for workloads in by_namespace.values():
        pairs = combinations(workloads, 2) if len(workloads) <= _MOST_WORKLOADS else ()
        for (first, selects, labels), (second, also, others) in pairs:
            given = titles.get(first) or titles.get(second)
            if given is not None and (selects.matches(others) or also.matches(labels)):
                other = second if given.title == first else first
                message = f"it and {other} select the same pods, so that their controllers and budgets mix them up"
                step = "give each a label of its own, as in app: NAME"
                yield given.finding("selectors-overlap", message, step, "spec.selector")


_SELECT_PODS = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}
assert JOB.kind not in _SELECT_PODS  # its selector is made


def selector_text(selector: LabelSelector) -> str:
    """Return a selector as kubectl shows it."""
    return ",".join(map(str, selector.requirements))


def _similar(cluster: CheckedCluster, selector: LabelSelector, namespace: str) -> str:
    """A label of the pods there that is similar to the one that none of them has."""
    known: dict[str, set[str]] = {}
    for labels in cluster.pods.get(namespace, ()):
        for key, value in labels.items():
            known.setdefault(key, set()).add(value)
    for requirement in selector.requirements:
        if requirement.key not in known:
            if hint := did_you_mean(requirement.key, known):
                return hint
            continue
        for value in requirement.values:
            if value not in known[requirement.key]:
                return did_you_mean(value, known[requirement.key])
    return ""
