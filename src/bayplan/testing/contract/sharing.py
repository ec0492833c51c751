"""What is shared between pods with equal signatures may be shared: `sign`, `rests_on` and `reads_pods` are true."""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any

from bayplan.api.kinds import NODE, POD
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework import interface
from bayplan.scheduling import Templates, decide
from bayplan.scheduling.decision import Decision
from bayplan.testing.contract.examples import UNBUILDABLE, Example, World, changed, edited, pod_info, tell
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.random_examples import RandomExamples
from bayplan.testing.contract.subject import Said, Subject, alone, ask
from bayplan.testing.contract.variations import cluster_changes, pod_variations


def check_signature(subject: Subject, example: Example) -> Finding | None:
    """Pods with equal signatures get equal verdicts and raw scores."""
    if not subject.signs or not subject.decides:
        return None
    world = example.build()
    plugin = subject.build(world.handle)
    signature, rests_on = _shared_key(plugin, world.pod, world)
    if signature is None or rests_on is None:
        return None
    said = ask(plugin, world)
    for path, document in pod_variations(example):
        try:
            pod = pod_info(document)
        except UNBUILDABLE:
            continue
        if _shared_key(plugin, pod, world) != (signature, rests_on):
            continue
        other = ask(plugin, world, pod)
        if difference := _where(said, other):
            return Finding(
                f"two pods that differ only in {path} ({_at(example.pod, path)} and {_at(document, path)}) have the "
                f"same sign(), {signature!r}; {difference}",
                f"let sign() return also what the plugin reads of {path}",
            )
    return None


def check_rests_on(subject: Subject, example: Example) -> Finding | None:
    """While `rests_on` stays, what is said of a node rests on that node and its pods, whatever changes elsewhere."""
    if not subject.signs or not subject.decides:
        return None
    world = example.build()
    plugin = subject.build(world.handle)
    for what, kind, before, after in cluster_changes(example):
        key = _shared_key(plugin, world.pod, world)
        if None in key:
            return None
        said = ask(plugin, world)
        concerned = {
            each["metadata"]["name"] if kind is NODE else each.get("spec", {}).get("nodeName")
            for each in (before, after)
            if each is not None
        }
        with changed(world.state, kind, before, after):
            if _shared_key(plugin, world.pod, world) != key:
                continue
            again = ask(plugin, world, pod_info(example.pod))
        nodes = said.verdicts.keys() & again.verdicts.keys() - concerned
        if difference := _where(said, again, nodes):
            return Finding(
                f"{what}, rests_on stayed {key[1]!r}, and {difference}",
                "let rests_on return what else the answers rest on (a version of it), or None where they cannot be "
                "shared; or leave sign out",
            )
    return None


def check_reads_pods(subject: Subject, example: Example) -> Finding | None:
    """A plugin with `reads_pods = False` says the same of a node whatever pods are there."""
    if subject.cls.reads_pods or not subject.decides:
        return None
    world = example.build()
    said = ask(subject.build(world.handle), world)
    for index, (kind, document) in enumerate(example.objects):
        if kind is not POD:
            continue
        without = example.without(index).build()
        if difference := _where(said, ask(subject.build(without.handle), without)):
            return Finding(
                f"reads_pods is False, but without pod {document['metadata']['name']} on node "
                f"{document['spec']['nodeName']}: {difference}",
                "leave reads_pods at True",
            )
    return None


def check_reuse(subject: Subject, example: Example) -> Finding | None:
    """A row of pods is placed alike with and without reuse of what was said of earlier ones."""
    if not subject.signs or not subject.decides:
        return None
    pods = [
        edited(document, ["metadata"], {**document["metadata"], "name": f"next-{number}", "uid": f"next-{number}"})
        for number, document in enumerate(_row_of_pods(example))
    ]
    with_reuse, without = _decided(subject, example, pods, reuse=True), _decided(subject, example, pods, reuse=False)
    for number, (one, other) in enumerate(zip(with_reuse, without, strict=True)):
        if one != other:
            return Finding(
                f"of a row of pods placed one after the other, number {number + 1} gets {_told(one)} where answers are "
                f"reused and {_told(other)} where all are made anew",
                "sign, rests_on and reads_pods have to cover all that answers rest on, and what pre_filter and "
                "pre_score remember must rest on the pod alone; or leave sign out",
            )
    return None


def _shared_key(plugin: Any, pod: PodInfo, world: World) -> tuple[Hashable, Hashable]:
    """The signature, and what it rests on; None for what cannot be told."""
    has = isinstance(plugin, interface.RestsOn)
    return plugin.sign(pod), plugin.rests_on(pod, world.state.nodes) if has else ()


def _where(one: Said, other: Said, nodes: Any = None) -> str:
    """Where what is shared differs, in words; `nodes`: those that count (None: all)."""
    if nodes is None and one.shared() == other.shared():
        return ""
    for name in sorted(one.verdicts.keys() | other.verdicts.keys() if nodes is None else nodes):
        before, after = one.of_node(name), other.of_node(name)
        if before != after:
            return f"of node {name} it says for the one: {before}, and for the other: {after}"
    if nodes is None and one.refusal != other.refusal:
        return f"PreFilter says for the one {one.refusal}, and for the other {other.refusal}"
    return ""


def _at(document: Any, path: str) -> Any:
    """What is at a path of a pod, where `containers[]` is the first one."""
    for field in path.split("."):
        document = (document or {}).get(field.removesuffix("[]"))
        document = document[0] if field.endswith("[]") else document
    return "nothing" if document is None else document


def _row_of_pods(example: Example) -> list[Any]:
    kinds = [example.pod, RandomExamples.like(example).pod("waiting")]
    return [kinds[number % 3 == 2] for number in range(8)]


def _decided(
    subject: Subject, example: Example, pods: list[Any], *, reuse: bool
) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """What became of each pod: the node or the message, the feasible nodes and their scores."""
    world = example.build()
    profile = alone(subject.build(world.handle))
    templates = Templates(profile) if reuse else None
    decided = []
    changes = [change for change in cluster_changes(example) if change[1] is NODE and change[3] is not None]
    for number, document in enumerate(pods):
        pod = pod_info(document)
        decision = decide(profile, world.state, pod, _FirstByName(world.state), templates=templates)
        decided.append(_summary(decision, world.state))
        if decision.node:
            world.state.assume(pod, decision.node)
        if number == 4 and changes:
            _, kind, _, after = changes[example.number % len(changes)]
            assert after is not None
            tell(world.state, kind, after)
    return decided


def _summary(decision: Decision, state: ClusterState) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    names = state.table.names
    feasible = tuple(names[row] for row in decision.feasible.tolist()) if decision.feasible is not None else ()
    scores = tuple(decision.scores.total.tolist()) if decision.scores is not None else ()
    return decision.node or decision.message, feasible, scores


def _told(summary: tuple[str, tuple[str, ...], tuple[int, ...]]) -> str:
    where, feasible, scores = summary
    scored = ", ".join(f"{name}: {score}" for name, score in zip(feasible, scores, strict=False))
    return f"{where!r}{f' ({scored})' if scored else ''}"


class _FirstByName(random.Random):
    """Chooses the node that comes first by name."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(0)
        self._names = state.table.names

    def choice(self, seq: Any) -> Any:
        """The row of the first name."""
        return min(seq, key=lambda row: self._names[row])
