"""Matches node selectors against all nodes at once. Functions return a bool array of shape (len(nodes),).

A requirement is evaluated once per distinct value of its label, not per node. The selectors themselves are parsed in
`bayplan.core.api`.
"""

from __future__ import annotations

import numpy as np

from bayplan.core.api.labels import LabelSelector, Requirement
from bayplan.core.api.selectors import NAME_FIELD, NodeSelector, NodeTerm, RequiredNodeAffinity
from bayplan.core.cluster.columns import Bool
from bayplan.core.cluster.nodes import Nodes


def match_required(required: RequiredNodeAffinity, nodes: Nodes) -> Bool:
    """Return which nodes match a pod's node selector and required node affinity."""
    matches = np.ones(len(nodes), dtype=np.bool_)
    if required.labels is not None:
        for requirement in required.labels.requirements:
            matches &= match_requirement(requirement, nodes)
    if required.selector is not None:
        matches &= match_selector(required.selector, nodes)
    return matches


def match_selector(selector: NodeSelector, nodes: Nodes) -> Bool:
    """Return which nodes match at least one term."""
    matches = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        matches |= match_term(term, nodes)
    return matches


def match_topology(selector: NodeSelector, nodes: Nodes) -> Bool:
    """Return which nodes match the topology of a volume: as `match_selector`, but as if nodes had no names.

    Mirrors CheckNodeAffinity (component-helpers' storage/volume/helpers.go).
    """
    matches = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        if not term.errors and all((value == "") == equal for _, equal, value in term.fields.terms):
            matches |= match_labels(term.labels, nodes)
    return matches


def match_labels(selector: LabelSelector, nodes: Nodes) -> Bool:
    """Return which nodes match a label selector."""
    matches = np.ones(len(nodes), dtype=np.bool_)
    for requirement in selector.requirements:
        matches &= match_requirement(requirement, nodes)
    return matches


def match_term(term: NodeTerm, nodes: Nodes) -> Bool:
    """Return which nodes match all requirements of a term. A term with errors matches none."""
    if term.errors:
        return np.zeros(len(nodes), dtype=np.bool_)
    matches = match_labels(term.labels, nodes)
    for field, equal, value in term.fields.terms:
        matches &= _named(value, nodes) == equal if field == NAME_FIELD else (value == "") == equal
    return matches


def match_requirement(requirement: Requirement, nodes: Nodes) -> Bool:
    """Return which nodes match one requirement."""
    key, operator = requirement.key, requirement.operator
    if operator in {"in", "=", "=="}:
        return nodes.label_in(key, requirement.values)
    if operator in {"notin", "!="}:
        return ~nodes.label_in(key, requirement.values)
    if operator == "exists":
        return nodes.has_label(key)
    if operator == "!":
        return ~nodes.has_label(key)
    return nodes.label_where(key, lambda value: value is not None and requirement.matches({key: value}))


def _named(name: str, nodes: Nodes) -> Bool:
    matches = np.zeros(len(nodes), dtype=np.bool_)
    position = nodes.position(name)
    if position is not None:
        matches[position] = True
    return matches
