"""Moving: evicts pods and lets their controllers make others, which are then scheduled.

drain and shrink are made of it. A move counts against disruption budgets until the replacement has a node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import msgspec

from bayplan.answers.insight.questions.documents import pending_copy, pod_document
from bayplan.answers.insight.questions.eviction_budgets import allowed_by, objection, replaced
from bayplan.answers.insight.questions.new_objects import add_objects, given
from bayplan.answers.simulation.evictions import budgets_of, evict
from bayplan.answers.simulation.owners import controller_of, is_replaced
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM, STATEFUL_SET, Kind
from bayplan.core.api.objects import encode
from bayplan.core.api.times import rfc3339
from bayplan.core.api.volumes import claim_name
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import is_made_for, made_claim_names
from bayplan.core.scheduling import Preemption


@dataclass(slots=True)
class Move:
    """A pod that leaves its node.

    `replacement`: the key of the pod that its controller made; "" if there is none. `result`: the outcome for that one.
    `preemptor`: the key of the pod that it made room for; "" for a pod that was evicted. `budgets`: those that count
    the pod as unhealthy until its replacement has a node.
    """

    pod: PodInfo
    replacement: str = ""
    result: Result | None = None
    preemptor: str = ""
    budgets: tuple[str, ...] = ()

    @property
    def placed(self) -> bool:
        """Whether the replacement got a node."""
        return self.result is not None and self.result.placed


class Moving:
    """Moves pods in a world. `preempt`: whether pods may preempt. `moves`: by the key of the pod that moves.

    `all_or_none`: whether `schedule` may end once it is certain that a replacement gets no node.
    """

    def __init__(self, world: World, *, preempt: bool = True, all_or_none: bool = False) -> None:
        self.moves: dict[str, Move] = {}
        self._world = world
        self._all_or_none = all_or_none
        self._made = 0
        self._new: list[str] = []
        """The keys of the pods that were made since they were last scheduled."""
        self._origins: dict[str, Move] = {}
        """key of a replacement -> its move"""
        self._allowed: dict[str, int] = {}
        """The disruptions that budgets allowed at first."""
        self._waiting = Waiting(world)
        self._simulation = Simulation(
            world, self._preempted, preempt=preempt, together=True, may_help=self._waiting.may_fit
        )

    def objection_to(self, pod: PodInfo) -> str:
        """Return why the disruption budgets do not allow the eviction of a pod now; "" if they do."""
        return objection(pod, budgets_of(self._world, pod))

    def evict(self, pod: PodInfo) -> Move:
        """Evict a pod; the one that its controller makes waits for `schedule`."""
        budgets = budgets_of(self._world, pod)
        for key, budget in budgets:
            self._allowed.setdefault(key, allowed_by(budget))
        claims = list(_own_claims(self._world, pod))
        evict(self._world, pod)
        move = self.moves[pod.key] = Move(pod, budgets=tuple(key for key, _ in budgets))
        self._replace(pod, claims, move)
        return move

    def original(self, key: str) -> str:
        """Return the key of the pod that a replacement, or a replacement of one, replaces; other keys unchanged."""
        while (move := self._origins.get(key)) is not None and move.pod.key != key:
            key = move.pod.key
        return key

    def schedule_pending(self) -> None:
        """Schedule the pending pods of the world, before any pod moves."""
        self._new += self._world.pending
        self.schedule()
        self.moves.clear()
        self._origins.clear()

    def schedule(self) -> None:
        """Schedule the new pods, the pods that they preempt, and the pending ones that may fit now."""
        while self._new:
            new, self._new = self._new, []
            self._waiting.look()
            pods = [pod for key in new if (pod := self._world.pending.get(key)) is not None]
            results = {key: given(self._world, pod) for key in new if self._is_foreign(pod := self._world.pod(key))}
            results |= self._simulation.schedule(self._world.in_queue_order(pods), enough=self._is_lost)
            for key, result in results.items():
                move = self._origins.get(key)
                if move is not None:
                    move.result = replace(result, decision=None)  # which has arrays as long as the node table
                    self._count_healthy(move)
                pod = self._world.pending.get(key)
                if pod is not None and not result.gated:
                    self._waiting.add(pod, result)

    def undo_to(self, mark: int) -> None:
        """Undo the moves in `moves`, which were made since a mark of the world."""
        self._world.undo_to(mark)
        for move in self.moves.values():
            self._origins.pop(move.replacement, None)
        self._new.clear()

    def _is_lost(self, result: Result) -> bool:
        """Whether a replacement stays pending, whatever pods are placed after it."""
        if not self._all_or_none or result.fate is not Fate.PENDING or result.pod.key not in self._origins:
            return False
        pod, world = result.pod, self._world
        return world.sharing_key(pod) is not None and world.failure_depends_on(pod, result.plugins) is not None

    def _is_foreign(self, pod: PodInfo | None) -> TypeGuard[PodInfo]:
        """Whether no profile of the world schedules a pod."""
        return pod is not None and pod.scheduler_name not in self._world.profiles

    def _count_healthy(self, move: Move) -> None:
        if move.placed:
            for budget in move.budgets:
                if budget in self._allowed:
                    replaced(self._world, budget, self._allowed[budget])
            move.budgets = ()

    def _preempted(self, victim: PodInfo, preemption: Preemption) -> None:
        """Let the controller of a victim, which is gone already, make another pod."""
        self._waiting.room_was_made = True
        move = self._origins.pop(victim.key, None)
        if move is None:
            move = self.moves[victim.key] = Move(victim, preemptor=preemption.pod.key)
        move.replacement, move.result = "", None
        move.budgets = tuple(key for key, _ in budgets_of(self._world, victim))
        self._replace(victim, [], move)

    def _replace(self, pod: PodInfo, claims: Iterable[tuple[Kind, Any]], move: Move) -> None:
        """Make the pod that the controller makes; none for a bare pod, and for one that was replaced already."""
        controller = controller_of(pod)
        if controller is None or not is_replaced(pod):
            return
        self._made += 1
        name = pod.name if controller.kind == STATEFUL_SET.kind else f"{controller.name}-moved-{self._made:05}"
        document = pod_document(pending_copy(pod))
        document["metadata"] |= {
            "name": name,
            "uid": f"{pod.uid}-moved-{self._made}",
            "creationTimestamp": rfc3339(self._world.handle.time),
        }
        renamed = {}
        for kind, claim in claims:
            old = claim["metadata"]["name"]
            renamed[old] = f"{name}{old.removeprefix(pod.name)}" if old.startswith(pod.name) else f"{old}-{self._made}"
            add_objects(self._world, [_copy_of_claim(kind, claim, renamed[old], document["metadata"])])
        for status in document["status"].get("resourceClaimStatuses") or ():
            status["resourceClaimName"] = renamed.get(status["resourceClaimName"], status["resourceClaimName"])
        other = PodInfo.from_raw(encode(document))
        self._world.change(POD, other.key, other)
        move.replacement = other.key
        self._origins[other.key] = move
        self._new.append(other.key)


class Waiting:
    """Pods that can't be placed, and whether events may help them.

    A drained node takes no pods, so evictions from it help only pods that depend on other pods.
    """

    def __init__(self, world: World) -> None:
        self.room_was_made = False
        """Whether pods were evicted from nodes that others may use."""
        self._world = world
        self._depends_on = world.failure_depends_on
        self._classes: dict[Hashable, _Failed] = {}
        """Equal pods that failed for the same reason."""
        self._class_of: dict[str, _Failed] = {}
        """pod uid -> its class."""

    def add(self, pod: PodInfo, result: Result) -> None:
        """Add a pod that was tried."""
        key = self._world.sharing_key(pod)
        equal = pod.key if key is None else (key, result.plugins)
        failed = self._classes.get(equal)
        if failed is None:
            depends_on = None if key is None else self._depends_on(pod, result.plugins)
            failed = self._classes[equal] = _Failed(pod, result.plugins, depends_on, depends_on is None)
        self._class_of[pod.uid] = failed

    def may_fit(self, pod: PodInfo) -> bool:
        """Whether a pod may fit now, by the latest look at what its failure depends on."""
        failed = self._class_of.get(pod.uid)
        return failed is None or failed.may_fit or self.room_was_made

    def look(self) -> None:
        """Find failures that depend on something that has changed. Their pods are then tried again, or forgotten."""
        room, self.room_was_made = self.room_was_made, False
        for equal, failed in list(self._classes.items()):
            if failed.may_fit:
                continue
            if room or (failed.depends_on and self._depends_on(failed.pod, failed.plugins) != failed.depends_on):
                failed.may_fit = True
                del self._classes[equal]


@dataclass(slots=True)
class _Failed:
    """Pods like `pod` that the same plugins rejected. `depends_on`: see `World.failure_depends_on`; () stays so."""

    pod: PodInfo
    plugins: frozenset[str]
    depends_on: Hashable | None
    may_fit: bool


def _own_claims(world: World, pod: PodInfo) -> Iterable[tuple[Kind, dict[str, Any]]]:
    """The claims that controllers made for the pod, as documents."""
    objects = world.state.objects
    for volume in pod.volumes:
        if volume.ephemeral is not None:
            claim = objects[PERSISTENT_VOLUME_CLAIM].get(f"{pod.namespace}/{claim_name(pod.name, volume)}")
            if claim is not None:
                yield PERSISTENT_VOLUME_CLAIM, msgspec.json.decode(encode(claim))
    for name in made_claim_names(pod.object) if objects[RESOURCE_CLAIM] else ():
        device_claim = objects[RESOURCE_CLAIM].get(f"{pod.namespace}/{name}")
        if device_claim is not None and is_made_for(device_claim, pod.uid):
            yield RESOURCE_CLAIM, msgspec.json.decode(encode(device_claim))


def _copy_of_claim(kind: Kind, claim: dict[str, Any], name: str, pod: dict[str, Any]) -> dict[str, Any]:
    """A new claim like another one, for another pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}
    metadata = {
        "name": name,
        "namespace": pod["namespace"],
        "uid": f"{name}-of-{pod['uid']}",
        "ownerReferences": [owner],
    }
    spec = {key: value for key, value in claim["spec"].items() if key != "volumeName"}
    status = {"status": {"phase": "Pending"}} if kind is PERSISTENT_VOLUME_CLAIM else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec, **status}
