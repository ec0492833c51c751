"""The checks, and how they are run: on random clusters, and, where one fails, on smaller and smaller ones."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.cluster.pod_info import PodInfo
from bayplan.config import ConfigurationError, ExtraPlugin, PluginLoadError
from bayplan.framework.checks import check_plugin
from bayplan.framework.functions import InvalidPlugin
from bayplan.framework.profile import Point
from bayplan.framework.status import PluginError
from bayplan.testing.contract.answers import (
    check_answers,
    check_post_filter,
    check_repeatable,
)
from bayplan.testing.contract.binding import check_binding
from bayplan.testing.contract.examples import UNBUILDABLE, Example, documents
from bayplan.testing.contract.faults import BrokenContract, Finding
from bayplan.testing.contract.forms import check_forms, check_what_ifs
from bayplan.testing.contract.inputs import check_inputs
from bayplan.testing.contract.random_examples import RandomExamples
from bayplan.testing.contract.reserving import check_reserve
from bayplan.testing.contract.sharing import check_reads_pods, check_rests_on, check_reuse, check_signature
from bayplan.testing.contract.subject import Subject, ask
from bayplan.testing.contract.waking import check_events, check_hints
from bayplan.testing.contract.words import words_of

_MOST_ATTEMPTS = 600
"""How many smaller examples are tried for one that shows the same."""

Examine = Callable[[Subject, Example], Finding | None]


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the contract: its name, and what is promised."""

    name: str
    promise: str
    examine: Examine


_CHECKS = (
    Check("answers", "every point answers what its type says, and scores are 0 to 100", check_answers),
    Check("inputs", "what it is given stays as it is", check_inputs),
    Check("repeatable", "the same question gets the same answer", check_repeatable),
    Check("forms", "per-node and whole-table forms agree, for all nodes and for some", check_forms),
    Check("what-ifs", "pods in thought count as if they were there", check_what_ifs),
    Check("signature", "pods with equal signatures get equal answers", check_signature),
    Check("rests-on", "what is shared rests on the pod, on each node and on what rests_on says", check_rests_on),
    Check("reads-pods", "with reads_pods = False, pods on nodes make no difference", check_reads_pods),
    Check("reuse", "decisions are the same with and without reuse of earlier answers", check_reuse),
    Check("hints", "hints answer QUEUE or SKIP, whatever happens", check_hints),
    Check("events", "what may help a pod that waits is told to the queue", check_events),
    Check("reserve", "Unreserve undoes Reserve, however often it is called", check_reserve),
    Check("post-filter", "PostFilter answers a PostFilterResult that holds together", check_post_filter),
    Check("binding", "Reserve, Permit, PreBind, Bind and PostBind answer what their types say", check_binding),
)
_REGISTRATION = Check("registration", "it can be made, and its methods be called as points call them", lambda *_: None)
_EXERCISE = Check("exercise", "the examples bring it to say one thing and another", lambda *_: None)

CHECKS: Mapping[str, str] = {check.name: check.promise for check in (_REGISTRATION, *_CHECKS, _EXERCISE)}
"""Every check by name, with what it holds a plugin to."""


def check_contract(
    plugin: ExtraPlugin,
    arguments: Mapping[str, Any] | None = None,
    *,
    objects: Iterable[Any] = (),
    pods: Iterable[PodInfo] = (),
    words: Iterable[str] = (),
    only: Collection[str] = (),
    skip: Collection[str] = (),
    examples: int = 40,
    seed: int = 0,
) -> None:
    """Hold a plugin to what all plugins promise the scheduler (see CHECKS). Raises BrokenContract for the first breach.

    `plugin`: a class, which is built with `arguments` as they would stand in `pluginConfig`, or a function plugin. It
    is asked about `examples` small random clusters, the same ones for the same `seed`. Label keys and the like that
    stand in its code are used in these; `words` are more of them. `objects` (nodes, bound pods, objects of any kind)
    are in every cluster, and every other pod that waits is one of `pods`. `only` and `skip` choose among the checks;
    ValueError names one that there is not.
    """
    chosen = _chosen(only, skip)
    if _REGISTRATION.name in chosen:
        _check_registration(plugin)
    subject = Subject.of(plugin, arguments)
    vocabulary = tuple(dict.fromkeys((*words, *words_of(plugin, arguments))))
    waiting = [document for _, document in documents(pods)]
    maker = RandomExamples(seed, vocabulary, documents(objects), waiting)
    made = [maker.example(number) for number in range(examples)]
    _check_start(subject, maker.example(0))
    for check in _CHECKS:
        if check.name in chosen:
            for example in made:
                finding = _examined(check, subject, example)
                if finding is not None:
                    smallest, seen = _smallest(check, subject, example, finding)
                    raise BrokenContract(subject.name, check.name, check.promise, seen, smallest) from seen.cause
    if _EXERCISE.name in chosen:
        _check_exercise(subject, made)


def _chosen(only: Collection[str], skip: Collection[str]) -> set[str]:
    unknown = sorted({*only, *skip} - CHECKS.keys())
    if unknown:
        raise ValueError(f"no such check: {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    return set(only or CHECKS) - set(skip)


def _check_registration(plugin: ExtraPlugin) -> None:
    try:
        check_plugin(plugin)
    except InvalidPlugin as error:
        finding = Finding(str(error), "give the method the parameters that its point calls it with")
        name = getattr(plugin, "name", type(plugin).__name__)
        raise BrokenContract(str(name), _REGISTRATION.name, _REGISTRATION.promise, finding, None) from None


def _check_start(subject: Subject, example: Example) -> None:
    try:
        subject.build(example.build().handle)
    except (ConfigurationError, PluginLoadError) as error:
        finding = Finding(str(error), "let it start with these arguments, or give check_contract others", error)
        raise BrokenContract(subject.name, _REGISTRATION.name, _REGISTRATION.promise, finding, None) from error


def _examined(check: Check, subject: Subject, example: Example) -> Finding | None:
    """What a check finds. A plugin that raises where the check does not look for that has failed it, too."""
    try:
        return check.examine(subject, example)
    except PluginError as error:
        return Finding(str(error), f"let {error.point} raise nothing", error)
    except Exception as error:
        own = [
            (frame.f_code, line)
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_globals.get("__name__") == subject.module
        ]
        if not own:
            raise
        code, line = own[-1]
        where = f"raised by {code.co_name} in line {line} of {code.co_filename}"
        return Finding(f"{type(error).__name__}: {error}, {where}", f"let {code.co_name} answer for all of them", error)


def _smallest(check: Check, subject: Subject, example: Example, finding: Finding) -> tuple[Example, Finding]:
    """The smallest example in which the check finds something, and what that is."""
    attempts, smaller = 0, True
    while smaller:
        smaller = False
        for candidate in example.smaller():
            attempts += 1
            if attempts > _MOST_ATTEMPTS:
                break
            try:
                candidate.build()
            except UNBUILDABLE:
                continue
            found = _examined(check, subject, candidate)
            if found is not None:
                example, finding, smaller = candidate, found, True
                break
    return example, finding


def _check_exercise(subject: Subject, made: Iterable[Example]) -> None:
    """Whether the other checks have seen anything: a filter that never turns a node down passes them all."""
    rejected = passed = False
    scores: set[int] = set()
    for example in made:
        world = example.build()
        said = ask(subject.build(world.handle), world)
        rejected |= said.refusal is not None or any(status.rejected for status in said.verdicts.values())
        rejected |= said.names is not None
        passed |= bool(said.takes)
        scores.update((said.scores or {}).values())
    what = ""
    if subject.takes_part(Point.FILTER, Point.PRE_FILTER) and not rejected:
        what = "it took every pod on every node"
    elif subject.takes_part(Point.FILTER) and not passed:
        what = "it took no pod on any node"
    elif subject.takes_part(Point.SCORE) and len(scores) < 2:
        what = f"it gave every node the same score, {', '.join(map(str, scores)) or 'none at all'}"
    if what:
        finding = Finding(
            f"in none of the examples did it do otherwise: {what}",
            "give check_contract `words`, `objects` or `pods` that make a difference to it",
        )
        raise BrokenContract(subject.name, _EXERCISE.name, _EXERCISE.promise, finding, None)
