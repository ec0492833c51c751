"""Changes that would give a pod devices: other claims, other resources, and the deletion of the pods that have them.

The spec of a claim can't be changed on the server, so a changed claim is to be created anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from lightkube.models.resource_v1 import DeviceTaint, ResourceClaim

from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import key_of, reservations
from bayplan.core.devices.requests import constraints_of, requests_of
from bayplan.core.framework.remedies import Document, Remedy, delete_pods, may_make_room
from bayplan.core.plugins.dynamic_resources.obstacles import text_of_taint

_MOST_DELETED = 8
"""The most pods to delete."""


@dataclass(frozen=True, slots=True)
class Where:
    """A claim, and by their places a request and its alternative, where the request has alternatives."""

    claim: ResourceClaim = field(hash=False, compare=False)
    request: int = 0
    alternative: int | None = None
    key: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.claim))

    @property
    def name(self) -> str:
        """The name of the claim."""
        return self.key.rpartition("/")[2]

    @property
    def request_name(self) -> str:
        """The full name of the request."""
        request = requests_of(self.claim)[self.request]
        alternatives = request.firstAvailable or ()
        return request.name if self.alternative is None else f"{request.name}/{alternatives[self.alternative].name}"

    def edit(self, document: dict[str, Any], fields: Mapping[str, Any]) -> None:
        """Change the request in the document of its claim; a list is added to the one that is there."""
        request = document["spec"]["devices"]["requests"][self.request]
        spec = request["exactly"] if self.alternative is None else request["firstAvailable"][self.alternative]
        for name, value in fields.items():
            spec[name] = [*(spec.get(name) or ()), *value] if isinstance(value, list) else value

    def with_class(self, name: str) -> Remedy:
        """Return the remedy that lets the request ask for another class."""
        document = _document(self.claim)
        self.edit(document, {"deviceClassName": name})
        text = f"recreate the resourceclaim {self.name} with class {name} in request {self.request_name}"
        return Remedy(text, apply=(document,))

    def without_constraints(self, places: Sequence[int]) -> Remedy:
        """Return the remedy that removes constraints of the claim, by their places."""
        constraints = constraints_of(self.claim)
        texts = [
            f"matchAttribute {each.matchAttribute}"
            if each.matchAttribute
            else f"distinctAttribute {each.distinctAttribute}"
            for each in (constraints[place] for place in places)
        ]
        noun = "constraint" if len(texts) == 1 else "constraints"
        text = f"recreate the resourceclaim {self.name} without the {noun} {' and '.join(texts)}"
        return Remedy(text, apply=(self._without(places),))

    def object_without_constraints(self, places: Sequence[int]) -> ResourceClaim:
        """Return the claim without constraints, by their places."""
        claim: ResourceClaim = convert(RESOURCE_CLAIM.type, self._without(places))
        return claim

    def _without(self, places: Sequence[int]) -> dict[str, Any]:
        document = _document(self.claim)
        devices = document["spec"]["devices"]
        devices["constraints"] = [each for place, each in enumerate(devices["constraints"]) if place not in places]
        return document


@dataclass(frozen=True, slots=True)
class AddedTolerations:
    """Tolerations to add to a request."""

    where: Where
    taints: tuple[DeviceTaint, ...]


def tolerated(where: Where, taints: Iterable[DeviceTaint]) -> AddedTolerations:
    """Return what makes a request tolerate taints; each different one once."""
    return AddedTolerations(where, tuple({text_of_taint(taint): taint for taint in taints}.values()))


def recreated(tolerations: Sequence[AddedTolerations]) -> Remedy:
    """Return the remedy that creates the claims anew with these tolerations."""
    documents: dict[str, dict[str, Any]] = {}
    texts = []
    for each in tolerations:
        document = documents.setdefault(each.where.key, _document(each.where.claim))
        added = [
            {
                "key": taint.key,
                "effect": taint.effect,
                **({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}),
            }
            for taint in each.taints
        ]
        each.where.edit(document, {"tolerations": added})
        names = ", ".join(map(text_of_taint, each.taints))
        texts.append(
            f"recreate the resourceclaim {each.where.name} with a toleration of {names} "
            f"in request {each.where.request_name}"
        )
    applied: tuple[Document, ...] = tuple(documents.values())
    return Remedy(" and ".join(texts), apply=applied)


def use_claim(reference: str, name: str) -> Remedy:
    """Return the remedy that lets the pod use another claim."""

    def edit(pod: dict[str, Any]) -> None:
        pod["spec"]["resourceClaims"] = [
            {**each, "resourceClaimName": name} if each["name"] == reference else each
            for each in pod["spec"]["resourceClaims"]
        ]

    return Remedy(f"let the pod use the resourceclaim {name}", pod=edit)


def delete_users(
    pod: PodInfo,
    claims: Iterable[ResourceClaim],
    pods: Mapping[str, PodInfo],
    enough: Callable[[frozenset[str]], bool] = bool,
) -> Iterator[Remedy]:
    """Yield deletions of pods that claims are reserved for: as few as may be enough, the least important ones first.

    `pods`: by `namespace/name`. `enough`: whether it is enough that the claims with these keys have no users.
    """
    users: dict[str, set[str]] = {}
    for claim in claims:
        namespace = key_of(claim).partition("/")[0]
        users[key_of(claim)] = {f"{namespace}/{each.name}" for each in reservations(claim)}
    found = {key: pods[key] for keys in users.values() for key in keys if key in pods}
    candidates = sorted(
        (each for each in found.values() if each.uid != pod.uid and may_make_room(pod, each)),
        key=lambda each: (each.priority, sum(each.requested.values()), each.key),
    )

    def frees(chosen: Iterable[PodInfo]) -> bool:
        gone = {each.key for each in chosen}
        return enough(frozenset(key for key, keys in users.items() if keys and keys <= gone))

    for number in range(1, min(len(candidates), _MOST_DELETED) + 1):
        chosen = candidates[:number]
        if frees(chosen):
            for each in reversed(candidates[:number]):
                fewer = [other for other in chosen if other is not each]
                chosen = fewer if fewer and frees(fewer) else chosen
            yield from delete_pods(pod, chosen)


def _document(claim: ResourceClaim) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(encode(claim))
    return {**document, "apiVersion": "resource.k8s.io/v1", "kind": RESOURCE_CLAIM.kind}
