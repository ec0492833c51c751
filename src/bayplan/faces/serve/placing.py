"""Places the pods of manifests in a world, many of them quickly: equal pods are expanded and scored together.

The nodes are those that one attempt after the other would choose (`bayplan.answers.simulation.replicas`). What was
placed exists for the steps that follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bayplan.answers.insight.answers import Progress, QuestionError, listed
from bayplan.answers.insight.limits import AdditionLimit
from bayplan.answers.insight.manifests import Manifests
from bayplan.answers.insight.questions.new_objects import add_objects, given
from bayplan.answers.simulation.replicas import Replicas
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD, RESOURCE_QUOTA
from bayplan.core.api.names import name_errors
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo

POD_NAMES = "subdomain"
"""The rule for names of pods."""
_FEW = 4
"""Fewer equal pods than these are attempted one by one."""
_TEMPLATES = 1000
"""The most manifests whose defaults are kept."""
_OF_ONE = ("name", "uid", "creationTimestamp", "resourceVersion")
"""The metadata in which equal pods differ."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _New:
    """A pod to create. `kind`: equal for pods that differ only in their names."""

    document: Document
    kind: bytes

    @property
    def key(self) -> str:
        metadata = self.document["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"

    def info(self) -> PodInfo:
        return PodInfo.from_raw(encode({name: self.document[name] for name in self.document.keys() - _HEADER}))


_HEADER = {"apiVersion", "kind"}


class Placing:
    """Creates objects in a world that holds a cluster, and schedules their pods. What it made exists for it.

    `snapshot`: of the cluster. `seed`: names and uids are generated from it.
    """

    def __init__(self, snapshot: Snapshot, seed: int, room: AdditionLimit) -> None:
        self._manifests = Manifests(snapshot, seed, room)
        self._with_quotas = {key.partition("/")[0] for key in snapshot.of_kind(RESOURCE_QUOTA)}
        self._templates: dict[bytes, Document] = {}
        self._seed = seed
        self._made = 0

    def place(
        self, world: World, objects: Iterable[Mapping[str, Any]], room: AdditionLimit, progress: Progress
    ) -> dict[str, Result]:
        """Create objects and schedule their pods in their order. Returns the results by `namespace/name`.

        Raises QuestionError before anything changes in the world, or what the progress raises at any time.
        """
        documents = [dict(each) for each in objects]
        if all(each.get("kind") == "Pod" for each in documents):
            others: Sequence[Document] = ()
            new = [each for document in documents for each in self._pods(document, room)]
        else:
            expansion = self._manifests.expand(documents)
            if expansion.unknown:
                raise QuestionError(f"only their controllers know the pods of {listed(expansion.unknown)}")
            room.count("place", pods=len(expansion.pods), objects=len(expansion.objects))
            others, new = expansion.objects, [_New(pod, _kind_of(pod)) for pod in expansion.pods]
            self._templates.clear()  # defaults depend on classes and limits
            quotas = (each for each in others if each["kind"] == RESOURCE_QUOTA.kind)
            self._with_quotas |= {each["metadata"]["namespace"] for each in quotas}
        names: set[str] = set()
        for each in new:
            if each.key in names or world.pod(each.key) is not None:
                raise QuestionError(f"pod {each.key} exists already")
            names.add(each.key)
        add_objects(world, others)
        return _Batch(world, progress, len(new)).place(new)

    def _pods(self, document: Document, room: AdditionLimit) -> Iterator[_New]:
        """The pod of a manifest with its defaults. Of equal ones, only the first is given to the API server."""
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        plain = isinstance(name, str) and (metadata or {}).get("namespace", "default") not in self._with_quotas
        kind = _kind_of(document) if plain else b""
        template = self._templates.get(kind) if plain else None
        if template is None or name_errors(str(name), POD_NAMES):
            expansion = self._manifests.expand([document])
            add = [_New(pod, _kind_of(pod)) for pod in expansion.pods]
            room.count("place", pods=len(add), memory=sum(len(each.kind) for each in add))
            if plain and len(add) == 1 and not expansion.objects:
                if len(self._templates) >= _TEMPLATES:
                    self._templates.clear()
                self._templates[kind] = add[0].document
            yield from add
            return
        room.count("place", pods=1, memory=len(kind))
        self._made += 1
        metadata = {**template["metadata"], "name": name, "uid": f"placed-{self._seed}-{self._made}"}
        yield _New({**template, "metadata": metadata}, _kind_of(template))


class _Batch:
    """Schedules new pods of a world."""

    def __init__(self, world: World, progress: Progress, total: int) -> None:
        self._world = world
        self._progress = progress
        self._total = total
        self._results: dict[str, Result] = {}
        self._attempts = 0

    def place(self, new: Sequence[_New]) -> dict[str, Result]:
        """Return the results of the pods, in their order."""
        single: list[_New] = []
        for _, run in groupby(new, lambda each: each.kind):
            equal = list(run)
            if len(equal) < _FEW or not self._is_alone(equal[0].info()):
                single += equal
                continue
            self._attempt([*single, equal[0]])
            single = equal[1 + self._replicate(equal) :]
        self._attempt(single)
        pending = [key for key, result in self._results.items() if result.fate is Fate.PENDING]
        if pending and self._attempts > 1:  # pods that came later may have helped
            waiting = [self._world.pending[key] for key in pending if key in self._world.pending]
            again = Simulation(self._world).schedule(waiting)
            self._results |= {key: result for key, result in again.items() if result.fate is not Fate.PENDING}
        return {each.key: self._results[each.key] for each in new}

    def _attempt(self, new: Sequence[_New]) -> None:
        """Create pods, and attempt them."""
        if not new:
            return
        self._attempts += 1
        world, waiting = self._world, []
        for each in new:
            pod = each.info()
            world.change(POD, pod.key, pod)
            if pod.key in world.pending:
                waiting.append(pod)
            else:
                self._results[pod.key] = given(world, pod)
        Simulation(world).schedule(waiting, self._tell, self._results)

    def _is_alone(self, pod: PodInfo) -> bool:
        """Whether a pod is decided without others, such as those of its gang, and as pods that are equal."""
        known = pod.scheduler_name in self._world.profiles and not pod.node_name
        return known and self._world.sharing_key(pod) is not None

    def _replicate(self, equal: Sequence[_New]) -> int:
        """Place pods like the first one, which was attempted, with its results. Returns how many were placed so."""
        world, first = self._world, self._results[equal[0].key]
        if first.fate is not Fate.PLACED or first.node is None:
            return 0
        template = equal[1].info()
        replicas = Replicas.of(world, template, equal[2].info())
        if replicas is None:
            return 0
        for number, each in enumerate(equal[1:]):
            metadata = each.document["metadata"]
            node = replicas.place(metadata["name"], metadata["uid"])
            if node is None:
                return number
            message = f"Successfully assigned {each.key} to {node}"
            self._results[each.key] = Result(template, Fate.PLACED, node, message=message)
            self._tell(len(self._results))
        return len(equal) - 1

    def _tell(self, done: int) -> None:
        self._progress(f"{done:,} of {self._total:,} pods")


def _kind_of(document: Mapping[str, Any]) -> bytes:
    metadata = {name: value for name, value in (document.get("metadata") or {}).items() if name not in _OF_ONE}
    return encode({**document, "metadata": metadata})
