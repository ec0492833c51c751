"""Expansion: what manifests lead to: objects, pods, what the API server refuses, and what happens to pods that run
already.

`bayplan.answers.insight.manifests` makes it, with an API server in memory and the controllers' functions. Nothing is
placed yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bayplan.core.api.objects import Document


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that the API server doesn't take, such as `Service shop/web`, and its error."""

    what: str
    message: str


@dataclass(frozen=True, slots=True)
class Rollout:
    """Pods of a workload that its controller replaces. All pods are `namespace/name`.

    `old` and `new` are in the order in which they go and come. Meanwhile, at most `most` pods of the workload exist,
    and at least `least` are available.

    `one_by_one`: each new pod waits until the one before has a node; those without an old one come first.
    `must_run`: pods that exist, and that an ordered StatefulSet waits for before it makes or replaces another one.
    `spares`: whether pods that don't run stay, too, as long as without them fewer than `least` pods would exist, those
    that are new and not available left out.
    """

    workload: str
    old: Sequence[str]
    new: Sequence[str]
    least: int
    most: int
    one_by_one: bool = False
    must_run: Sequence[str] = ()
    spares: bool = False


@dataclass(slots=True)
class Expansion:
    """The objects that manifests lead to, as documents with `apiVersion` and `kind`. `pods` are in their order."""

    objects: list[Document] = field(default_factory=list)
    pods: list[Document] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    refused_pods: list[Refused] = field(default_factory=list)
    """Pods (`namespace/name`) that aren't created, because of a quota, for example."""
    kept: list[str] = field(default_factory=list)
    """Pods that exist already, and stay."""
    removed: list[str] = field(default_factory=list)
    """Pods that exist and are too many."""
    rollouts: list[Rollout] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Objects whose pods only their controller knows, as `Kafka shop/events (kafka.strimzi.io/v1)`."""
    not_run: list[str] = field(default_factory=list)
    """Rules about nodes that only a controller has: their pods may get other nodes than in the answer, or none."""
