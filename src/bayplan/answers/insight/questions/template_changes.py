"""Changes of a pod that a workload made: its template changes, and with it all pods of the workload are replaced."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayplan.answers.insight.answers import Progress, listed, plural
from bayplan.answers.insight.limits import AdditionLimit, Limits
from bayplan.answers.insight.manifests import Manifests
from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.insight.questions.change import Help, make
from bayplan.answers.insight.questions.deployment import Deployment, remove_pod
from bayplan.answers.insight.questions.new_objects import add_objects
from bayplan.answers.simulation.owners import owners_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import JOB, POD, Kind
from bayplan.core.api.status import StatusError
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion, Rollout

_KINDS = {kind.kind: kind for kind in WORKLOADS}


@dataclass(frozen=True, slots=True)
class TemplateChanges:
    """Tries the changes of a pod's manifest with the workload that made the pod, as its controller rolls them out.

    New pods come as surge and unavailability allow, and quotas count them. A call returns the help with what this
    costs; None if no more pods of the workload run afterwards than before.
    """

    snapshot: Snapshot
    seed: int
    limits: Limits

    def __call__(self, world: World, pod: PodInfo, found: Help, progress: Progress) -> Help | None:
        """Try a help for a pod with its workload. The result is the help itself where no controller replaces pods."""
        workload = self._workload_of(pod) if found.change.edits else None
        if workload is None:
            return found
        kind, document = workload
        name = f"{kind.singular} {document['metadata']['namespace']}/{document['metadata']['name']}"
        if kind is JOB:
            return _with_cost(found, f"the template of a Job is immutable: create {name} again")
        changed = _changed(kind, document, found)
        if changed is None:
            return _with_cost(found, f"{name} doesn't say that of its pods: change what does, such as a webhook")
        try:
            expansion = Manifests(self.snapshot, self.seed, AdditionLimit(self.limits, progress)).edit(kind, changed)
        except StatusError as error:
            return _stuck(found, f"the API server refuses the change of {name}: {error.message}")
        by_hand = [key for rollout in expansion.rollouts for key in _waiting(world, rollout)]
        expansion.rollouts = [_without_waiting(world, rollout) for rollout in expansion.rollouts]
        if by_hand:
            what = f"delete {listed(by_hand, 3)}, too: {name} is ordered, and waits for pods that don't run"
            found = _with_cost(found, what)
        if not expansion.rollouts:  # the workload has no other pods to replace, or replaces none by itself
            return found
        return _tried(world, found, name, expansion, progress)

    def _workload_of(self, pod: PodInfo) -> tuple[Kind, Mapping[str, Any]] | None:
        """The outermost controller of a pod that has a template; None if it isn't in the snapshot."""
        for kind_name, name in reversed(list(owners_of(pod))):
            kind = _KINDS.get(kind_name)
            document = None if kind is None else self.snapshot.document(kind, f"{pod.namespace}/{name}")
            if kind is not None and document is not None and (document.get("spec") or {}).get("template"):
                return kind, document
        return None


def _changed(kind: Kind, document: Mapping[str, Any], found: Help) -> dict[str, Any] | None:
    """A workload with the changed template; None if its template hasn't what the change of its pods is about."""
    template = copy.deepcopy({"metadata": {}, "spec": {}, **document["spec"]["template"]})
    before = copy.deepcopy(template)
    try:
        for edit in found.change.edits:
            edit(template)
    except Exception:  # noqa: BLE001 - an edit is a plugin's own code, made for a pod that may have more than its template
        return None
    if template == before:
        return None
    changed = {**document, "apiVersion": kind.api_version, "kind": kind.kind}
    return {**changed, "spec": {**document["spec"], "template": template}}


def _tried(world: World, found: Help, name: str, expansion: Expansion, progress: Progress) -> Help | None:
    """The help after the rollout; None if it doesn't lead to more pods that run."""
    old = [key for rollout in expansion.rollouts for key in rollout.old]
    running = _running(world, old)
    others = tuple(each for each in found.change.apply if each["kind"] != POD.kind)
    with world.trial():
        make(world, replace(found.change, apply=others))
        for key in expansion.removed:
            remove_pod(world, key)
        add_objects(world, expansion.objects)
        results = Deployment(world, expansion, progress).run()
        left = [key for key in old if key not in results or not results[key].placed]
        staying = _running(world, left)
        after = sum(result.placed for result in results.values()) + staying
    if after <= running:
        return None
    total = len(results) + len(expansion.refused_pods)
    if after < total or any(not result.placed for result in results.values()):
        stays = f"; {plural(staying, 'old pod')} {'stays' if staying == 1 else 'stay'}" if staying else ""
        return _stuck(
            found, f"the rollout of {name} gets stuck: {after} of {total} pods run then, {running} now{stays}"
        )
    return _with_cost(found, f"replaces {plural(running, 'running pod')} of {name}") if running else found


def _waiting(world: World, rollout: Rollout) -> list[str]:
    """The pods that keep an ordered StatefulSet from its rollout until someone deletes them."""
    return [key for key in rollout.must_run if not _running(world, [key])]


def _without_waiting(world: World, rollout: Rollout) -> Rollout:
    """The rollout if these pods are deleted: they come first."""
    waiting = _waiting(world, rollout)
    first = [key for key in waiting if key in rollout.new]
    return replace(
        rollout,
        old=[key for key in rollout.old if key not in waiting],
        new=[*first, *(key for key in rollout.new if key not in first)],
        must_run=[key for key in rollout.must_run if key not in waiting],
    )


def _running(world: World, keys: Sequence[str]) -> int:
    return sum((pod := world.pod(key)) is not None and bool(pod.node_name) for key in keys)


def _stuck(found: Help, why: str) -> Help:
    return replace(_with_cost(found, why), lasts=False)


def _with_cost(found: Help, *costs: str) -> Help:
    texts = [each for each in (found.change.cost, *costs) if each]
    return replace(found, change=replace(found.change, cost=", ".join(texts)))
