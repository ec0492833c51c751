"""What would let pods start sooner: one more node of a pool, a higher priority class, smaller requests.

Each is another simulation of the same cluster with the same seeds, so that the difference is the change's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.answers.insight.questions.node_groups import new_nodes, node_groups
from bayplan.answers.insight.questions.raised_priority import higher_classes, with_class
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.api.objects import encode
from bayplan.core.api.quantity import InvalidQuantity, format_quantity, parse
from bayplan.core.api.requests import CPU, MEMORY
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.remedies import Edit

_POOLS = 5
"""The most pools that get a node, the largest ones."""
_SHARES = (0.75, 0.5)
"""The parts of the requests that are tried."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variation:
    """Something that may be different. `text`: for people. `make`: makes it so in a world."""

    text: str
    make: Callable[[World], None]


def variations(world: World, pods: Sequence[PodInfo], classes: Mapping[str, int]) -> Iterator[Variation]:
    """Yield what may let pods of a world start sooner. `classes`: the priorities of the priority classes."""
    for group in node_groups(world)[:_POOLS]:
        node = next(new_nodes(world, group))
        yield Variation(f"one more node of {group.title}", node.add_to)
    higher = higher_classes(classes, max(pod.priority for pod in pods))
    for name in dict.fromkeys((*higher[:1], *higher[-1:])):
        yield Variation(f"priority class {name}", _edit(pods, with_class(name, classes[name])))
    for share in _SHARES:
        yield Variation(f"{share:.0%} of the requested cpu and memory", _edit(pods, _with_requests(share)))


def _edit(pods: Sequence[PodInfo], edit: Edit) -> Callable[[World], None]:
    """Return what changes the manifests of pods in a world."""

    def make(world: World) -> None:
        for pod in pods:
            document: Json = msgspec.json.decode(pod.raw)
            edit(document)
            world.change(POD, pod.key, PodInfo.from_raw(encode(document)))

    return make


def _with_requests(share: float) -> Edit:
    def edit(document: Json) -> None:
        spec = document["spec"]
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            requests = (container.get("resources") or {}).get("requests") or {}
            for name in {CPU, MEMORY} & requests.keys():
                requests[name] = _part(requests[name], share, binary=name == MEMORY)

    return edit


def _part(amount: str, share: float, *, binary: bool) -> str:
    """A part of a quantity, in whole bytes or millionths of a cpu."""
    try:
        nanos = int(parse(str(amount)) * share)
    except InvalidQuantity:  # such a pod can't be read, and isn't asked about
        return amount
    step = 10**9 if binary else 10**6
    return format_quantity(nanos // step * step, binary=binary)
