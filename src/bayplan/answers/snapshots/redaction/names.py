"""The names of a redacted snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from bayplan.core.api.provisioning import MARK

Rule = Callable[[Any, "Names"], Any]
"""Returns what replaces a value; None leaves the field out."""

_PUBLIC = (
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "karpenter.sh",
    "cloud.google.com",
    "gke.io",
    "amazonaws.com",
    "aws.com",
    "azure.com",
    "openstack.org",
)
"""Domains whose label and taint keys are no secret, with their subdomains."""
_PUBLIC_VALUES = re.compile(r"(beta\.)?kubernetes\.io/(os|arch|instance-type)|.*/instance-type")
"""Keys of these domains whose values are no secret either."""
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?|true|false")
_WORD = re.compile(r"\w+")
_THREE_PARTS = re.compile(r"[a-z0-9]+(-[a-z0-9]+){2}")
_KEPT = {
    "lease": frozenset({"kube-scheduler"}),
    "namespace": frozenset({"default", "kube-system", "kube-public", "kube-node-lease"}),
    "priorityclass": frozenset({"system-cluster-critical", "system-node-critical"}),
}
_PLACE = re.compile(r"[0-9]+-[0-9]+")
_OWNERS_OF_PLACES = {"pod": "provisioningrequest"}
_ZONES = re.compile(r".*/(zone|region)")
_DOMAINS = {
    "kubernetes.io/hostname": "node",
    "kubernetes.io/metadata.name": "namespace",
    "scheduling.x-k8s.io/pod-group": "podgroup",
    "pod-group.scheduling.sigs.k8s.io/name": "podgroup",
    "kueue.x-k8s.io/queue-name": "localqueue",
    "appgroup.diktyo.x-k8s.io": "appgroup",
    "appgroup.diktyo.x-k8s.io.workload": "appworkload",
    "metadata.name": "node",  # the field that node affinity selects by
}
"""Labels whose values are names of other things. Their keys are kept."""
_MEASURE = re.compile(
    r"(?:January|February|March|April|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
    r"|Mon|Tue|Wed|Thu|Fri|Sat|Sun|[AaPp][Mm]|UTC|GMT|[-+0-9.,:/ _TZeE])*+"
)
"""Numbers and times, also with names of days and months."""


class Names:
    """New names by domain, such as "node": first all names are collected, then they are numbered and replaced."""

    def __init__(self) -> None:
        self.namespace = ""
        """The namespace of the object that is being redacted."""
        self.object = ""
        """Its name."""
        self._seen: dict[str, set[str]] = {}
        self._new: dict[str, dict[str, str]] | None = None
        self.measured: set[str] = set()
        """The keys of labels and annotations whose values are numbers or times that decisions rest on."""
        self._words: set[str] = set()
        self._ephemeral: dict[tuple[str, str], tuple[str, str]] = {}

    def number(self) -> None:
        """End the collection: from now on, names are replaced."""
        self._new = {domain: _numbered(domain, names) for domain, names in self._seen.items()}

    def new(self, domain: str, name: str) -> str:
        """The new name in place of a name; itself if it is empty or public.

        That of a place of a provisioning request has the new name or uid of its request, and its numbers.
        """
        owner, mark, place = name.partition(MARK)
        if mark and _PLACE.fullmatch(place):
            return f"{self.new(_OWNERS_OF_PLACES.get(domain, domain), owner)}{mark}{place}"
        return name if not name or name in _KEPT.get(domain, ()) else self._replaced(domain, name)

    def _replaced(self, domain: str, name: str) -> str:
        if self._new is None:
            self._seen.setdefault(domain, set()).add(name)
            return name
        return self._new[domain][name]

    def key(self, key: str) -> str:
        """The new key of a label or a taint."""
        return key if _is_public(key) or key in _DOMAINS else self.new("label", key)

    def value(self, key: str, value: Any) -> Any:
        """The new value of a label or a taint with this key. A number, which no API server stores, is kept."""
        if (
            not isinstance(value, str)
            or _NUMBER.fullmatch(value)
            or (_is_public(key) and _PUBLIC_VALUES.fullmatch(key))
            or (key in self.measured and self.is_measure(value))
        ):
            return value
        return self.zones(value) if _ZONES.fullmatch(key) else self.new(_DOMAINS.get(key, "value"), value)

    def is_measure(self, value: str) -> bool:
        """Whether a text is nothing but a number or a time."""
        return _MEASURE.fullmatch(value) is not None

    def zones(self, value: str) -> str:
        """New names of zones: one, or several as in `a__b`. Zones `x-y-z` of the same region `x-y` still have one."""
        parts = []
        for zone in value.split("__"):
            stripped = zone.strip()
            if _THREE_PARTS.fullmatch(stripped):
                parts.append("-".join(self.new("z", part).replace("-", "") for part in stripped.split("-")))
            else:
                parts.append(self.new("zone", stripped).replace("-", ""))
        return "__".join(parts)

    def expression(self, text: str) -> None:
        """Note a CEL expression, which stays as it is."""
        self._words.update(_WORD.findall(text))

    def is_selected_by(self, attribute: str) -> bool:
        """Whether a CEL expression may read this attribute of devices, `driver/name` or `name`."""
        return attribute.rpartition("/")[2] in self._words

    def claim(self, namespace: str, name: str) -> str:
        """The new name of a claim. That of an ephemeral volume consists of the names of its pod and its volume."""
        pod, volume = self._ephemeral.get((namespace, name), ("", ""))
        return f"{self.new('pod', pod)}-{self.new('volume', volume)}" if pod else self.new("claim", name)

    def ephemeral(self, volume: str) -> None:
        """Note an ephemeral volume of the current pod, and so its claim."""
        self.claim_of(f"{self.object}-{volume}", self.object)

    def claim_of(self, claim: str, pod: str) -> None:
        """Note a claim of an ephemeral volume of a pod in the current namespace."""
        self._ephemeral[self.namespace, claim] = pod, claim.removeprefix(f"{pod}-")

    def forget_claim(self, namespace: str, claim: str) -> None:
        """Forget a claim that is gone."""
        self._ephemeral.pop((namespace, claim), None)


class KeyedNames(Names):
    """New names that are known at once, for objects that come one after the other: keyed hashes of the old ones.

    The same key gives the same names. They don't have the order of the old ones.
    """

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self.read_late: set[str] = set()
        """The attributes of devices that an expression read only after texts of theirs were replaced."""
        self._key = key
        self._replaced_attributes: set[str] = set()

    def expression(self, text: str) -> None:
        """Note the words of an expression, and which of them come too late: after texts of theirs were replaced."""
        super().expression(text)
        self.read_late |= self._words & self._replaced_attributes

    def is_selected_by(self, attribute: str) -> bool:
        """Whether an expression that is already known may read this attribute."""
        selected = super().is_selected_by(attribute)
        if not selected:
            self._replaced_attributes.add(attribute.rpartition("/")[2])
        return selected

    def _replaced(self, domain: str, name: str) -> str:
        return f"{domain}-{blake2b(f'{domain}/{name}'.encode(), key=self._key, digest_size=8).hexdigest()}"


def _is_public(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in _PUBLIC)


def _numbered(domain: str, names: Iterable[str]) -> dict[str, str]:
    ordered = sorted(names)
    width = len(str(len(ordered)))
    return {name: f"{domain}-{number:0{width}}" for number, name in enumerate(ordered, start=1)}
