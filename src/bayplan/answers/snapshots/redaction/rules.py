"""Rules that replace the names in a part of an object, and drop the fields that are not kept.

What no rule keeps is dropped, so a new field can't leak a name. Equal names get equal replacements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from bayplan.answers.snapshots.redaction.names import Names, Rule
from bayplan.core.api import kueue, provisioning, volumes
from bayplan.core.api.durations import EXPECTED_DURATION
from bayplan.core.api.kinds import KINDS
from bayplan.core.api.type_table import table
from bayplan.core.devices.claims import SCHEDULING_GROUP
from bayplan.core.devices.extended_claims import ANNOTATION as EXTENDED_CLAIM


def keep(value: Any, names: Names) -> Any:
    """A value without what users may name: numbers, quantities, times, and words of the API.

    Fields of objects stay, other strings don't.
    """
    if isinstance(value, dict):
        kept = {field: keep(item, names) for field, item in value.items() if field in _api_words()[1]}
        return {field: item for field, item in kept.items() if item is not None}
    if isinstance(value, list):
        return [kept for item in value if (kept := keep(item, names)) is not None]
    if not isinstance(value, str) or _PLAIN.fullmatch(value) or value in _api_words()[0]:
        return value
    return None


def verbatim(value: Any, _: Names) -> Any:
    """A text that docs/insight.md lists as kept: names of drivers, resources, attributes and schedulers."""
    return value if isinstance(value, str) else None


def verbatims(value: Any, names: Names) -> Any:
    """A list of such texts."""
    return each(verbatim)(value, names)


@cache
def _api_words() -> tuple[frozenset[str], frozenset[str]]:
    """The words that the API defines as values, and the names of its fields."""
    fields_of_types = [field for fields in table().values() for field in fields.items()]
    words = {word for _, field in fields_of_types for word in field.enum}
    return frozenset(words | _WORDS), frozenset(name for name, _ in fields_of_types)


_WORDS = {"True", "False", "Container", "Persistent", "Ephemeral", "Memory", "linux", "windows", "single", "all"}
"""Values of the API that its schema doesn't list."""
_PLAIN = re.compile(
    r"[-+]?[0-9]*\.?[0-9]*(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE%]|[eE][-+]?[0-9]+)?"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[-+][0-9:]+)|true|false|HugePages(-[0-9]+[KMG]i)?"
)
"""Numbers, quantities, shares and times."""


def mapped(key: Callable[[str, Names], str], rule: Rule) -> Rule:
    """A rule for a map: its keys are replaced by `key`, and its values follow `rule`."""
    return lambda value, names: (
        {key(each, names): rule(item, names) for each, item in value.items()} if isinstance(value, dict) else None
    )


def resource(name: str, names: Names) -> str:
    """The name of a resource, which is kept but for the name of a device class in it."""
    domain, slash, rest = name.partition("/")
    return f"{domain}/{names.new('deviceclass', rest)}" if slash and domain == _DEVICE_CLASS_DOMAIN else name


_DEVICE_CLASS_DOMAIN = "deviceclass.resource.kubernetes.io"


amounts = mapped(resource, keep)
"""Quantities by resource. A resource may stand for a device class, whose name it has."""


def resource_name(value: Any, names: Names) -> Any:
    """The value of a field that names a resource."""
    return resource(value, names) if isinstance(value, str) else None


def _quota_resource(key: str, names: Names) -> str:
    for suffix, domain in _QUOTA_SUFFIXES:
        owner, found, rest = key.partition(suffix)
        if found:
            return f"{names.new(domain, owner)}{found}{rest}"
    prefix, dot, rest = key.partition(".")
    return f"{prefix}.{resource(rest, names)}" if dot and prefix in {"requests", "limits"} else resource(key, names)


_QUOTA_SUFFIXES = ((".storageclass.storage.k8s.io/", "storageclass"), (".deviceclass.resource.k8s.io/", "deviceclass"))
quota = mapped(_quota_resource, keep)
"""The amounts of a quota. `gold.storageclass.storage.k8s.io/requests.storage` has the name of a class."""


def constant(value: Any) -> Rule:
    """A rule for required fields whose values are private."""
    return lambda _, __: value


def numbers(value: Any, _: Names) -> Any:
    """The numbers of a status."""
    return {field: each for field, each in value.items() if isinstance(each, int)} if isinstance(value, dict) else None


def words(*known: str) -> Rule:
    """A rule for a field that has one of these words."""
    return lambda value, _: value if isinstance(value, str) and value in known else None


KUEUE_POLICY = words(
    *("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"),
    *("Borrow", "Preempt", "MayStopSearch", "TryNextFlavor", "BorrowingOverPreemption", "PreemptionOverBorrowing"),
)
"""A policy of a ClusterQueue about preemption, or about its flavors."""


def name(domain: str) -> Rule:
    """A rule for names."""
    return lambda value, names: names.new(domain, value) if isinstance(value, str) else None


def fields(kept: str = "", /, **rules: Rule) -> Rule:
    """A rule for an object: only these fields stay, the `kept` ones (`"phase startTime"`) by the rule `keep`."""
    every = {**dict.fromkeys(kept.split(), keep), **rules}

    def apply(value: Any, names: Names) -> Any:
        if not isinstance(value, dict):
            return None
        found = ((field, rule(value[field], names)) for field, rule in every.items() if field in value)
        return {field: new for field, new in found if new is not None}

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
    kept = {field: new for field in _OF_KEYED if (new := keep(value.get(field), names)) is not None}
    if "key" in value:
        kept["key"] = names.key(about) if about else ""
    if isinstance(value.get("value"), str):
        kept["value"] = names.value(about, value["value"])
    if isinstance(value.get("values"), list):
        kept["values"] = [names.value(about, text) for text in value["values"]]
    return kept


_OF_KEYED = ("operator", "effect", "tolerationSeconds", "timeAdded")


def network_weights(value: Any, names: Names) -> Any:
    """The name of weights in a NetworkTopology."""
    return value if value in {"UserDefined", "NetperfCosts"} else name("weights")(value, names)


SELECTOR = fields(matchLabels=labels, matchExpressions=each(keyed))
NODE_TERM = fields(matchExpressions=each(keyed), matchFields=each(keyed))
NODE_SELECTOR = fields(nodeSelectorTerms=each(NODE_TERM))


def condition(value: Any, names: Names) -> Any:
    """The type or the reason of a condition: those of Kubernetes are kept."""
    if not isinstance(value, str):
        return None
    return value if value in _CONDITIONS else names.new("condition", value)


_CONDITIONS = {
    *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
    *("PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers", "DisruptionTarget"),
    *("PodResizePending", "PodResizeInProgress", "Deferred", "Infeasible", "Error", "Unschedulable"),
    *("SchedulingGated", "SchedulerError", "PreemptionByScheduler", "PodGroupScheduled", "Scheduled"),
    *("KubeletReady", "KubeletNotReady", "NodeStatusUnknown"),
    *(provisioning.ACCEPTED, provisioning.PROVISIONED, provisioning.FAILED),
    *(provisioning.EXPIRED, provisioning.REVOKED),
    *("QuotaReserved", "Admitted", "Finished", "Evicted", "Active", "PodsReadyTimeout", "AdmissionCheck"),
    *("PodGroupInitiallyScheduled", "CompositePodGroupInitiallyScheduled"),
}
CONDITIONS = each(
    fields("status lastTransitionTime lastProbeTime observedGeneration", type=condition, reason=condition)
)


def request(value: Any, names: Names) -> Any:
    """The name of a request for devices, or `request/subrequest`. Those of extended resources are kept."""
    if not isinstance(value, str):
        return None
    if _OF_EXTENDED_RESOURCES.fullmatch(value):
        return value
    return "/".join(names.new("request", part) for part in value.split("/"))


_OF_EXTENDED_RESOURCES = re.compile(r"container-[0-9]+-request-[0-9]+")


def expression(value: Any, names: Names) -> Any:
    """A CEL expression, which is kept."""
    if isinstance(value, str):
        names.expression(value)
    return verbatim(value, names)


def attributes(value: Any, names: Names) -> Any:
    """The attributes of a device. Texts are replaced if no CEL expression reads the attribute."""
    if not isinstance(value, dict):
        return None
    return {key: _attribute(key, each, names) for key, each in value.items() if isinstance(each, dict)}


def _attribute(attribute: str, value: Mapping[str, Any], names: Names) -> Any:
    def text(given: Any, _: Names) -> Any:
        if not isinstance(given, str):
            return None
        new = names.new("attribute", given)
        return given if names.is_selected_by(attribute) else new

    kept = fields(int=keep, bool=keep, ints=keep, bools=keep, string=text, strings=each(text))(dict(value), names)
    versions = {field: value[field] for field in ("version", "versions") if field in value}
    return {**kept, **versions}


def by_name(domain: str, rule: Rule) -> Rule:
    """A rule for a map whose keys are names of a domain."""
    return mapped(lambda key, names: names.new(domain, key), rule)


def by_resource(rule: Rule) -> Rule:
    """A rule for a map whose keys are names of resources or capacities, which are kept."""
    return mapped(lambda key, _: key, rule)


def host_ip(value: Any, names: Names) -> Any:
    """The address of a host port: all addresses and the loopback ones are kept."""
    if not isinstance(value, str) or value in {"", "0.0.0.0", "::", "127.0.0.1", "::1"}:  # noqa: S104 - read, not bound
        return value if isinstance(value, str) else None
    return names.new("ip", value)


def profile_path(value: Any, names: Names) -> Any:
    """The path of a seccomp profile, which ends in its namespace and its name."""
    folder, _, file = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    namespace, profile = folder.rpartition("/")[2], file.rpartition(".")[0] if "." in file else file
    if not namespace or not profile:
        return None
    return f"operator/{names.new('namespace', namespace)}/{names.new('seccompprofile', profile)}.json"


def known_annotations(value: Any, names: Names) -> Any:
    """The annotations that decisions or questions depend on."""
    if not isinstance(value, dict):
        return None
    found = {field: rule(value[field], names) for field, rule in _ANNOTATIONS.items() if field in value}
    found |= {names.key(field): names.value(field, value[field]) for field in names.measured if field in value}
    if profiles := sorted(field for field in value if _SECCOMP in field):  # the first one counts
        found[f"{_SECCOMP}/pod"] = profile_path(value[profiles[0]], names)
    return {field: text for field, text in found.items() if text is not None} or None


def _duration(value: Any, _: Names) -> Any:
    """A duration, or quantiles of one: nothing but numbers and their units."""
    return value if isinstance(value, str) and _DURATION.fullmatch(value) else None


_DURATION = re.compile(r"(?:p[59]0=)?[0-9.]+[hms0-9.]*(?:, ?p[59]0=[0-9.]+[hms0-9.]*)?")


def _integer(value: Any, _: Names) -> Any:
    """An integer, or what is none."""
    return value if isinstance(value, str) and _INTEGER.fullmatch(value) else "invalid"


_SECCOMP = "seccomp.security.alpha.kubernetes.io"
_INTEGER = re.compile(r"[-+]?[0-9]+")

_ANNOTATIONS: Mapping[str, Rule] = {
    EXPECTED_DURATION: _duration,
    volumes.BIND_COMPLETED: constant("yes"),
    volumes.BOUND_BY_CONTROLLER: constant("yes"),
    volumes.MIGRATED_PLUGINS: verbatim,
    volumes.SELECTED_NODE: name("node"),
    "volume.beta.kubernetes.io/storage-class": name("storageclass"),
    "storageclass.kubernetes.io/is-default-class": keep,
    EXTENDED_CLAIM: keep,
    **dict.fromkeys(provisioning.CONSUMES, name("provisioningrequest")),
    "kubernetes.io/config.mirror": constant("mirror"),
    "cluster-autoscaler.kubernetes.io/safe-to-evict": keep,
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority": _integer,
    "preemption-toleration.scheduling.x-k8s.io/toleration-seconds": _integer,
    "topology.node.k8s.io/fingerprint": name("fingerprint"),
    kueue.PRIORITY_BOOST: _integer,
}
"""Annotations that decisions or questions depend on."""


def _owner(value: Any, names: Names) -> Any:
    if not isinstance(value, dict):
        return None
    kind = str(value.get("kind") or "")
    kept = {"uid": names.new("uid", str(value.get("uid") or "")), "controller": value.get("controller") is True}
    if kind in _KINDS:
        domain = _OWNER_DOMAINS.get(kind, kind.lower())
        version = _KINDS[kind].api_version
    elif kind == "PodGroup" and str(value.get("apiVersion")).startswith(f"{SCHEDULING_GROUP}/"):
        domain, version = "podgroup", value["apiVersion"]
    else:
        kind, domain, version = names.new("kind", kind), "owner", "example.com/v1"
    return {**kept, "apiVersion": version, "kind": kind, "name": names.new(domain, str(value.get("name") or ""))}


_KINDS = {kind.kind: kind for kind in KINDS}
_OWNER_DOMAINS = {"PersistentVolumeClaim": "claim"}


def metadata(named: Rule) -> Rule:
    """A rule for metadata. `named` is the rule for the name."""
    return fields(
        "resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds",
        name=named,
        namespace=name("namespace"),
        uid=name("uid"),
        labels=labels,
        annotations=known_annotations,
        ownerReferences=each(_owner),
    )


def obj(domain: str, kept: str = "", /, named: Rule | None = None, **rules: Rule) -> Rule:
    """A rule for objects whose names are in `domain`, or follow the rule `named`. Other fields: as for `fields`."""
    return fields(kept, metadata=metadata(named or name(domain)), **rules)


def custom(domain: str, kind: str, /, **rules: Rule) -> Rule:
    """A rule for custom resources of a kind, which say what they are."""
    return obj(domain, apiVersion=verbatim, kind=constant(kind), **rules)


def claim_name(value: Any, names: Names) -> Any:
    """The name of a claim in the namespace of the object."""
    return names.claim(names.namespace, value) if isinstance(value, str) else None


def claim_ref(value: Any, names: Names) -> Any:
    """A volume's reference to its claim."""
    if not isinstance(value, dict):
        return None
    namespace, claim = str(value.get("namespace") or ""), str(value.get("name") or "")
    kept = {"kind": "PersistentVolumeClaim"}
    if isinstance(value.get("uid"), str):
        kept["uid"] = names.new("uid", value["uid"])
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
