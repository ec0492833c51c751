"""Promises of plugins that sign pods: answers may be shared as `sign`, `rests_on` and `reads_pods` declare.

Pods that differ in one field must differ in what is declared, or get the same answers.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Any

from bayplan.core.api.kinds import NODE
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework import interface, promises
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.framework.promises import reads_only_nodes
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.testing.contract.examples import BuiltExample, Example, pod_info
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import Subject, alone, ask, difference
from bayplan.testing.strategies import at, named


@promise("signature", "pods with equal signatures get equal answers", lambda subject: subject.shares)
def signature(subject: Subject, example: Example) -> None:
    """Pods that differ in one field get different signatures, or equal verdicts and raw scores."""
    plugin, world = subject.start(example)
    key = cache_key(plugin, world.pod, world)
    if None in key:
        return
    first = ask(plugin, world).texts(shared=True)
    for variant in example.variants:
        if cache_key(plugin, variant.pod, world) != key:
            continue
        second = ask(plugin, world, variant.pod).texts(shared=True)
        if found := difference(first, second, "for the first pod", "for the second"):
            same = "share results" if subject.pure else f"have the same sign(), {key[0]!r}"
            change = f"let sign() return also what the plugin reads of {variant.path}"
            if subject.pure:
                change = f"read nothing of {variant.path}, or remove pure=True: it differs between pods of one template"
            raise Breach(
                f"two pods that differ only in {variant.path} ({at(variant.before, variant.path)} and "
                f"{at(variant.after, variant.path)}) {same}, but {found}",
                change,
            )


@promise(
    "rests-on",
    "shared answers depend on the pod, on the node and on what rests_on returns",
    lambda subject: subject.shares,
)
def rests_on(subject: Subject, example: Example) -> None:
    """While `rests_on` returns the same value, the answer for a node depends only on that node and its pods.

    A plugin may also say itself that something changed for a node (`NodeColumns.changed`).
    """
    plugin, world = subject.start(example)
    key = cache_key(plugin, world.pod, world)
    if None in key:
        return
    before, table = ask(plugin, world), world.state.table
    for change in example.changes:
        version = table.version
        with change.made(world.state):
            if cache_key(plugin, world.pod, world) != key:
                continue
            after = ask(plugin, world, pod_info(example.pod))
            said = {table.name_of(row) for row in table.changed_since(version) or ()} - change.nodes - {""}
        if said and not promises.reads_pods(plugin):
            raise Breach(
                f"{change.text}, and NodeColumns.changed says so of node {min(said)}, but reads_pods is False",
                "leave reads_pods at True: only the answers of such plugins are asked for again",
            )
        others = before.verdicts.keys() & after.verdicts.keys() - change.nodes - said
        if found := difference(before.texts(shared=True), after.texts(shared=True), "before", "after", others):
            raise Breach(
                f"{change.text}, and rests_on returns {key[1]!r} as before, but {found}",
                "let rests_on return what else the answers depend on (a version of it), or None if they cannot be "
                f"shared; or remove {_declaration(subject)}",
            )


@promise(
    "reads-pods",
    "with reads_pods = False, pods on nodes make no difference",
    lambda subject: subject.decides and reads_only_nodes(subject.cls),
)
def reads_pods(subject: Subject, example: Example) -> None:
    """A plugin with `reads_pods = False` gives the same answers whatever pods are on the nodes."""
    before = ask(*subject.start(example)).texts(shared=True)
    for pod in example.bound:
        after = ask(*subject.start(example.without(pod))).texts(shared=True)
        there = f"with pod {pod['metadata']['name']} on node {pod['spec']['nodeName']}"
        if found := difference(before, after, there, "without it"):
            raise Breach(f"reads_pods is False, but {found}", "leave reads_pods at True")


@promise("reuse", "decisions are the same with and without reuse of earlier answers", lambda subject: subject.shares)
def reuse(subject: Subject, example: Example) -> None:
    """Several pods get the same nodes with and without reuse of answers for earlier ones."""
    with_reuse, without = _decided(subject, example, reuse=True), _decided(subject, example, reuse=False)
    for number, (one, other) in enumerate(zip(with_reuse, without, strict=True)):
        if one != other:
            raise Breach(
                f"of pods placed one after the other, number {number + 1} gets {one} with reuse, and {other} without",
                "sign, rests_on and reads_pods have to cover everything that answers depend on, and what pre_filter "
                f"and pre_score remember must depend on the pod alone; or remove {_declaration(subject)}",
            )


def cache_key(plugin: Any, pod: PodInfo, world: BuiltExample) -> tuple[Hashable, Hashable]:
    """Return the signature and the value of rests_on; None if answers are not shared."""
    has = isinstance(plugin, interface.RestsOn)
    rests_on = plugin.rests_on(pod, world.state.nodes) if has else ()
    return plugin.sign(pod), None if isinstance(rests_on, interface.OnlyNow) else rests_on


def _decided(subject: Subject, example: Example, *, reuse: bool) -> list[str]:
    """Return for each pod the node or the message, the feasible nodes, and their scores."""
    plugin, world = subject.start(example)
    state, profile = world.state, alone(plugin)
    start = Sharing(profile).start if reuse else PodRun.start
    changes = [change for change in example.changes if change.kind is NODE and change.after is not None]
    decided = []
    for number in range(8):
        pod = pod_info(named(example.other if number % 3 == 2 else example.pod, f"next-{number}"))
        decision = decide(profile, state, pod, _FirstByName(state), start=start)
        feasible = [] if decision.feasible is None else [state.table.names[row] for row in decision.feasible.tolist()]
        scores = [] if decision.scores is None else decision.scores.total.tolist()
        decided.append(f"{decision.node or decision.message!r} (scores {dict(zip(feasible, scores, strict=False))})")
        if decision.node:
            state.assume(pod, decision.node)
        if number == 4 and changes:
            changes[0].make(state)
    return decided


class _FirstByName(random.Random):
    """Chooses the node that is first by name."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(0)
        self._names = state.table.names

    def choice(self, seq: Any) -> Any:
        """Return the row with the first name."""
        return min(seq, key=lambda row: self._names[row])


PROMISES = (signature, rests_on, reads_pods, reuse)


def _declaration(subject: Subject) -> str:
    """What declares that pods share the plugin's answers."""
    return "pure=True" if subject.pure else "sign"


def check_declarations(subject: Subject, plugin: Any, world: BuiltExample) -> None:
    """Raise Breach if what a plugin declares about a pod can't be hashed."""
    for form, method, arguments in (
        (interface.Sign, "sign", (world.pod,)),
        (interface.RestsOn, "rests_on", (world.pod, world.state.nodes)),
    ):
        if subject.has(form):
            value = getattr(plugin, method)(*arguments)
            try:
                hash(value)
            except TypeError:
                problem = f"{method} returned {value!r}, which cannot be hashed"
                raise Breach(problem, "return tuples, not lists or dicts") from None
