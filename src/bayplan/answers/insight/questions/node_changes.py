"""Hypothetical changes of nodes: removed, new, cordoned, labeled and tainted ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from lightkube.models.core_v1 import Taint

from bayplan.answers.insight.answers import QuestionError, plural
from bayplan.answers.insight.nodes import no_node, node_of
from bayplan.answers.insight.questions.documents import copy_of_node
from bayplan.answers.insight.questions.draft import Draft
from bayplan.answers.insight.questions.node_groups import new_node_documents
from bayplan.core.api.kinds import CSI_NODE, NODE, RESOURCE_SLICE, VOLUME_ATTACHMENT
from bayplan.core.api.labels import InvalidSelector, label_key_errors, label_value_errors, parse_label_selector
from bayplan.core.api.tolerations import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    tolerated_seconds,
)

_ADD_NODES = re.compile(r"(?:([1-9][0-9]{0,29})x)?like:(.+)")
_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


def change_nodes(draft: Draft, verb: str, given: str, change: Callable[..., None], *text: str) -> None:
    """Make a change of all nodes that a name or a selector means. `change` gets the draft, a node's name and `text`.

    Raises QuestionError if there is no such node, or the change isn't possible.
    """
    given = given.removeprefix("node/")
    names = _names(draft, given)
    for name in names:
        draft.room.progress(f"{verb} {name}")
        change(draft, name, *text)
    count = f"({plural(len(names), 'node')})" if names != [given] else ""
    draft.steps.append(" ".join(filter(None, (verb, given, *text, count))))


def _names(draft: Draft, given: str) -> list[str]:
    known = draft.snapshot.of_kind(NODE)
    if given in known:
        return [given]
    if not re.search(r"[=!,()\s]", given):
        raise QuestionError(no_node(given, known))
    try:
        selector = parse_label_selector(given)
    except InvalidSelector as error:
        raise QuestionError(f"{given}: expected a node or a label selector: {error}") from None
    found = [name for name in known if selector.matches(_node(draft, name)["metadata"].get("labels") or {})]
    if not found:
        raise QuestionError(f"no node has the labels {given}")
    return sorted(found)


def _node(draft: Draft, name: str) -> dict[str, Any]:
    document = draft.snapshot.document(NODE, name)
    assert document is not None
    document["spec"] = document.get("spec") or {}
    return document


def remove_node(draft: Draft, name: str) -> None:
    """Remove a node with what depends on it; the controllers of its pods create them again."""
    gone = [(NODE, name)] + ([(CSI_NODE, name)] if name in draft.snapshot.of_kind(CSI_NODE) else [])
    for kind in (RESOURCE_SLICE, VOLUME_ATTACHMENT):
        for key, raw in draft.snapshot.of_kind(kind).items():
            spec = (draft.snapshot.document(kind, key) or {}).get("spec") if name.encode() in raw else None
            if spec and spec.get("nodeName") == name:
                gone.append((kind, key))
    draft.snapshot = draft.snapshot.but(remove=gone)
    draft.displace(draft.pods_on(name))


def add_nodes(draft: Draft, text: str) -> list[str]:
    """Add nodes like another one of the original snapshot. Returns their names."""
    match = _ADD_NODES.fullmatch(text)
    if match is None:
        raise QuestionError(f"{text}: expected the number of new nodes and one that they are like: 3xlike:node-a")
    count, like = int(match[1] or 1), match[2]
    node, known = node_of(draft.world, like), draft.snapshot.of_kind(NODE)
    if node is None:
        raise QuestionError(f"{text}: there is no node {like}")
    one = copy_of_node(node)
    size = sum(len(msgspec.json.encode(document)) for document in one)
    draft.room.count(text, nodes=count, pods=count * (len(one) - 1), memory=count * size)
    free = (name for number in range(1, 10**9) if (name := f"{like}-new-{number}") not in known)
    names = [next(free) for _ in range(count)]
    added = [new_node_documents(draft.world, node, name) for name in names]
    draft.snapshot = draft.snapshot.but(add=[document for documents in added for document in documents])
    draft.steps.append(f"add {plural(count, 'node')} like {like}")
    return names


def cordon(draft: Draft, name: str) -> None:
    """Cordon a node, with the taint that the node lifecycle controller adds."""
    node = _node(draft, name)
    taint = {"key": UNSCHEDULABLE_TAINT, "effect": NO_SCHEDULE}
    node["spec"] |= {"unschedulable": True, "taints": [*taints_without(node, UNSCHEDULABLE_TAINT), taint]}
    draft.change(node)


def uncordon(draft: Draft, name: str) -> None:
    """Uncordon a node."""
    node = _node(draft, name)
    node["spec"].pop("unschedulable", None)
    node["spec"]["taints"] = taints_without(node, UNSCHEDULABLE_TAINT)
    draft.change(node)


def label(draft: Draft, name: str, text: str) -> None:
    """Add, change or remove a label: `key=value`, or `key-`."""
    node = _node(draft, name)
    labels = node["metadata"]["labels"] = dict(node["metadata"].get("labels") or {})
    key, equals, value = text.partition("=")
    if not equals and key.endswith("-"):
        key = key[:-1]
        labels.pop(key, None)
    elif equals:
        labels[key] = value
    else:
        raise QuestionError(f"label {text}: expected KEY=VALUE, or KEY- to remove the label")
    _check(f"label {text}", key, value)
    draft.change(node)


def taint(draft: Draft, name: str, text: str) -> None:
    """Add or remove a taint. Pods that don't tolerate a NoExecute taint for ever are evicted.

    Those that are being deleted stay until their kubelet, or a force deletion, ends them.
    """
    node = _node(draft, name)
    given, _, effect = text.removesuffix("-").partition(":")
    key, _, value = given.partition("=")
    _check(f"taint {text}", key, value)
    if (effect or not text.endswith("-")) and effect not in _EFFECTS:
        raise QuestionError(f"taint {text}: expected KEY=VALUE:EFFECT with an effect of {', '.join(_EFFECTS)}")
    node["spec"]["taints"] = taints_without(node, key, effect)
    if not text.endswith("-"):
        node["spec"]["taints"].append({"key": key, "effect": effect, **({"value": value} if value else {})})
    draft.change(node)
    if effect == NO_EXECUTE and not text.endswith("-"):
        added = [Taint(key=key, value=value, effect=effect)]
        specs: Any = ((pod, pod.object.spec) for pod in draft.pods_on(name) if not pod.terminating)
        tolerations = ((pod, spec.tolerations or ()) for pod, spec in specs)
        draft.displace([pod for pod, given in tolerations if math.isfinite(tolerated_seconds(added, given))])


def taints_without(node: Mapping[str, Any], key: str, effect: str = "") -> list[dict[str, Any]]:
    """Return the taints of a node but those with this key and effect; without an effect, with any."""
    taints = node["spec"].get("taints") or ()
    return [other for other in taints if other["key"] != key or (effect and other["effect"] != effect)]


def _check(what: str, key: str, value: str) -> None:
    error = next(iter((*label_key_errors(key), *label_value_errors(value))), None)
    if error is not None:
        raise QuestionError(f"{what}: {error}")
