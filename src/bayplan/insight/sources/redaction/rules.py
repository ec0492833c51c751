"""Rules that replace the names in a part of an object, and drop the fields that are not kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayplan.api import volumes
from bayplan.devices.extended_claims import ANNOTATION as EXTENDED_CLAIM
from bayplan.insight.sources.redaction.names import Names, Rule


def keep(value: Any, _: Names) -> Any:
    """The value itself."""
    return value


def constant(text: str) -> Rule:
    """A rule for required fields whose values are private."""
    return lambda _, __: text


def numbers(value: Any, _: Names) -> Any:
    """The numbers of a status."""
    return {field: each for field, each in value.items() if isinstance(each, int)} if isinstance(value, dict) else None


def name(domain: str) -> Rule:
    """A rule for names."""
    return lambda value, names: names.new(domain, value) if isinstance(value, str) else None


def fields(**rules: Rule) -> Rule:
    """A rule for an object: only these fields are kept."""

    def apply(value: Any, names: Names) -> Any:
        if not isinstance(value, dict):
            return None
        kept = {}
        for field, rule in rules.items():
            if field in value and (new := rule(value[field], names)) is not None:
                kept[field] = new
        return kept

    return apply


def each(rule: Rule) -> Rule:
    """A rule for the items of a list."""

    def apply(value: Any, names: Names) -> Any:
        if not isinstance(value, list):
            return None
        return [new for item in value if (new := rule(item, names)) is not None]

    return apply


def key(value: Any, names: Names) -> Any:
    """The key of a label or a taint."""
    return names.key(value) if isinstance(value, str) else None


def labels(value: Any, names: Names) -> Any:
    """Labels, or a selector that has the form of labels."""
    if not isinstance(value, dict):
        return None
    return {names.key(label): names.value(label, text) for label, text in value.items()}


def keyed(value: Any, names: Names) -> Any:
    """A requirement, a taint or a toleration: a key with a value or with values."""
    if not isinstance(value, dict):
        return None
    about = str(value.get("key") or "")
    kept = {field: value[field] for field in _OF_KEYED if field in value}
    if "key" in value:
        kept["key"] = names.key(about) if about else ""
    if isinstance(value.get("value"), str):
        kept["value"] = names.value(about, value["value"])
    if isinstance(value.get("values"), list):
        kept["values"] = [names.value(about, text) for text in value["values"]]
    return kept


_OF_KEYED = ("operator", "effect", "tolerationSeconds", "timeAdded")

SELECTOR = fields(matchLabels=labels, matchExpressions=each(keyed))
NODE_TERM = fields(matchExpressions=each(keyed), matchFields=each(keyed))
NODE_SELECTOR = fields(nodeSelectorTerms=each(NODE_TERM))
CONDITIONS = each(
    fields(type=keep, status=keep, reason=keep, lastTransitionTime=keep, lastProbeTime=keep, observedGeneration=keep)
)


def known_annotations(value: Any, names: Names) -> Any:
    """The annotations that decisions or questions depend on."""
    if not isinstance(value, dict):
        return None
    return {field: rule(value[field], names) for field, rule in _ANNOTATIONS.items() if field in value} or None


_ANNOTATIONS: Mapping[str, Rule] = {
    volumes.BIND_COMPLETED: keep,
    volumes.BOUND_BY_CONTROLLER: keep,
    volumes.MIGRATED_PLUGINS: keep,
    volumes.SELECTED_NODE: name("node"),
    "volume.beta.kubernetes.io/storage-class": name("storageclass"),
    "storageclass.kubernetes.io/is-default-class": keep,
    EXTENDED_CLAIM: keep,
    "kubernetes.io/config.mirror": constant("mirror"),
    "cluster-autoscaler.kubernetes.io/safe-to-evict": keep,
}
"""Annotations that decisions or questions depend on."""


def _owner(value: Any, names: Names) -> Any:
    if not isinstance(value, dict):
        return None
    domain = str(value.get("kind") or "").lower()
    kept = {field: value[field] for field in ("apiVersion", "kind", "uid", "controller") if field in value}
    return kept | {"name": names.new(_OWNER_DOMAINS.get(domain, domain), str(value.get("name") or ""))}


_OWNER_DOMAINS = {"persistentvolumeclaim": "claim"}


def metadata(named: Rule) -> Rule:
    """A rule for metadata. `named` is the rule for the name."""
    return fields(
        name=named,
        namespace=name("namespace"),
        uid=keep,
        resourceVersion=keep,
        generation=keep,
        creationTimestamp=keep,
        deletionTimestamp=keep,
        deletionGracePeriodSeconds=keep,
        labels=labels,
        annotations=known_annotations,
        ownerReferences=each(_owner),
    )


def obj(domain: str, /, named: Rule | None = None, **rules: Rule) -> Rule:
    """A rule for objects whose names are in `domain`, or follow the rule `named`. `rules` are for its other fields."""
    return fields(metadata=metadata(named or name(domain)), **rules)


def claim_name(value: Any, names: Names) -> Any:
    """The name of a claim in the namespace of the object."""
    return names.claim(names.namespace, value) if isinstance(value, str) else None


def claim_ref(value: Any, names: Names) -> Any:
    """A volume's reference to its claim."""
    if not isinstance(value, dict):
        return None
    namespace, claim = str(value.get("namespace") or ""), str(value.get("name") or "")
    kept = {field: value[field] for field in ("apiVersion", "kind", "uid", "resourceVersion") if field in value}
    return kept | {"namespace": names.new("namespace", namespace), "name": names.claim(namespace, claim)}


def image(value: Any, names: Names) -> Any:
    """A pod's image, whose tag is `latest` if it has none. A node's images are compared with the complete name."""
    if not isinstance(value, str) or not value:
        return value
    return f"{names.new('image', value if value.rfind(':') > value.rfind('/') else f'{value}:latest')}:1"


def node_image(value: Any, names: Names) -> Any:
    """An image of a node."""
    return f"{names.new('image', value)}:1" if isinstance(value, str) else None


def disk(value: Any, names: Names) -> Any:
    """The id of a disk. An EBS volume may also be named by a URL, `aws://zone/vol-1`."""
    if not isinstance(value, str):
        return None
    if value.startswith("aws://"):
        ebs = re.fullmatch(r"aws://[^/]*/+(vol-[^/]*)/*", value)
        return f"aws:///{disk(ebs[1], names)}" if ebs else "aws://malformed"
    return names.new("vol" if value.startswith("vol-") else "disk", value)
