"""check_contract: checks a plugin on random clusters, and reports the smallest cluster in which a check fails.

Hypothesis draws the clusters, with the strings that the plugin looks for (`words.py`). A plugin whose answers never
differ is reported, too: its checks would mean nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Flaky

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import ExtraPlugin
from bayplan.core.framework.checks import check_events, check_plugin
from bayplan.core.framework.interface import EnqueueExtensions
from bayplan.core.framework.profile import Point
from bayplan.core.framework.status import PluginError
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.testing.contract import binding, checkpoints, deciding, grouping, purity, queueing, retrying, sharing
from bayplan.testing.contract.examples import Example, StrictHandle, pod_info
from bayplan.testing.contract.examples import examples as random_examples
from bayplan.testing.contract.promise import Breach, Promise
from bayplan.testing.contract.subject import Subject, ask
from bayplan.testing.contract.words import words_of
from bayplan.testing.documents import document_of
from bayplan.testing.strategies import Documents

_PROMISES = (
    deciding.answers,
    deciding.inputs,
    purity.pure,
    deciding.repeatable,
    deciding.forms,
    deciding.what_ifs,
    *sharing.PROMISES,
    queueing.hints,
    queueing.pure_hints,
    queueing.events,
    grouping.rejection,
    binding.reserve,
    binding.post_filter,
    binding.binding,
    checkpoints.checkpoint,
    retrying.retries,
)
_REGISTRATION, _EXERCISE = "registration", "exercise"

CHECKS: Mapping[str, str] = {
    _REGISTRATION: "the plugin starts, and its methods can be called as their extension points call them",
    **{promise.name: promise.text for promise in _PROMISES},
    _EXERCISE: "the examples bring out different answers",
}
"""The promise that each check tests, by the name of the check."""

_RUN = 10
"""How many examples Hypothesis draws in one run. In longer runs it mostly varies
earlier examples and tries few other clusters.
"""


class BrokenContract(AssertionError):
    """A plugin breaks a promise that all plugins make to the scheduler.

    `plugin` and `check` are names; `seen` is what the plugin did, `change` what would be right. `example` is the
    smallest cluster that was found, None where none is needed.
    """

    def __init__(self, plugin: str, check: str, breach: Breach, example: Example | None, rerun: str) -> None:
        self.plugin = plugin
        self.check = check
        self.seen = breach.seen
        self.change = breach.change
        self.example = example
        parts = {"seen": self.seen, "with": example, "change": self.change, "rerun": rerun}
        lines = [f"plugin {plugin!r} fails the check {check!r}: {CHECKS[check]}"]
        for name, part in parts.items():
            if part is not None:
                lines.append(f"  {name + ':':<9}{str(part).replace(chr(10), chr(10) + 11 * ' ')}")
        super().__init__("\n".join(lines))


def check_contract(
    plugin: ExtraPlugin,
    arguments: Mapping[str, Any] | None = None,
    *,
    objects: Iterable[Any] = (),
    pods: Iterable[PodInfo] = (),
    words: Iterable[str] = (),
    only: Collection[str] = (),
    skip: Collection[str] = (),
    examples: int = 60,
    seed: int = 0,
    gates: FeatureGates = DEFAULT_GATES,
) -> None:
    """Check what every plugin promises the scheduler (see CHECKS). Raises BrokenContract for the first breach.

    `plugin`: a class, which is built with `arguments` as from `pluginConfig`, or a function plugin. Hypothesis draws
    `examples` small clusters, the same ones for the same `seed`, and shrinks the first in which a check fails. Their
    labels, annotations and resources are strings from the plugin's code and arguments, and `words`. `objects` (nodes,
    bound pods, objects of any kind) are in every cluster, and in half of them the pending pod is one of `pods`. `only`
    and `skip` choose the checks; an unknown one raises ValueError. `gates`: the version of Kubernetes, and its gates.
    """
    unknown = sorted({*only, *skip} - CHECKS.keys())
    if unknown:
        raise ValueError(f"no such check: {', '.join(unknown)}; the checks are {', '.join(CHECKS)}")
    chosen = set(only or CHECKS) - set(skip)

    def broken(check: str, breach: Breach, example: Example | None = None) -> BrokenContract:
        rerun = f'check_contract(..., only=["{check}"], seed={seed})'
        return BrokenContract(str(getattr(plugin, "name", plugin)), check, breach, example, rerun)

    try:
        if _REGISTRATION in chosen:
            check_plugin(plugin)
        subject = Subject.of(plugin, arguments, gates)
        started = subject.make(StrictHandle(ClusterState()))
        if subject.has(EnqueueExtensions):
            check_events(started)
    except Exception as error:
        breach = Breach(f"{type(error).__name__}: {error}", "correct the plugin, or the arguments of check_contract")
        raise broken(_REGISTRATION, breach) from error

    exercise = _Exercise(subject)
    promises = [each for each in (*_PROMISES, exercise.promise) if each.name in chosen and each.concerns(subject)]
    drawn = random_examples(
        Documents((*words, *words_of(plugin, arguments))),
        tuple(document_of(each) for each in objects),
        [document for _, document in map(document_of, pods)],
    )
    failed: list[tuple[Promise, Breach, Example]] = []

    def keeps_promises(example: Example) -> None:
        for promise in [failed[0][0]] if failed else stage:
            try:
                _examine(promise, subject, example)
            except Breach as breach:
                failed.append((promise, breach, example))
                raise

    try:
        # last: a plugin that breaks this promise mostly breaks another one, too, whose report shows the cause better
        last = [sharing.reuse]
        for stage in ([each for each in promises if each not in last], [each for each in promises if each in last]):
            for first in range(0, examples, _RUN) if stage else ():
                _run(drawn, keeps_promises, min(_RUN, examples - first), f"{seed} {first}")
    except (Breach, Flaky):  # Flaky: the plugin does not repeat what it did
        promise, breach, example = failed[-1]
        raise broken(promise.name, breach, example) from breach.__cause__
    if _EXERCISE in chosen and (missing := exercise.missing()):
        change = "give check_contract `words`, `objects` or `pods` that make a difference to the plugin"
        raise broken(_EXERCISE, Breach(f"in all examples, {missing}", change))


def _run(drawn: Any, test: Callable[[Example], None], examples: int, seed: str) -> None:
    """Let Hypothesis try some examples and shrink one that fails, if its current profile shrinks."""
    limits: Callable[[Any], Any] = settings(
        max_examples=examples,
        phases=[phase for phase in settings().phases if phase in {Phase.generate, Phase.shrink}],
        report_multiple_bugs=False,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    run: Callable[[], None] = seeded(seed)(limits(given(drawn)(test)))  # type: ignore[no-untyped-call]  # hypothesis does not type `settings.__call__`
    run()


def _examine(promise: Promise, subject: Subject, example: Example) -> None:
    """Raises Breach. A plugin that raises where the check does not expect it has broken the promise, too."""
    try:
        promise.examine(subject, example)
    except Breach:
        raise
    except PluginError as error:
        change = (
            f"let {error.point} return what its protocol in bayplan.core.framework.interface says, and raise nothing"
        )
        raise Breach(str(error), change) from error
    except Exception as error:
        calls = traceback.walk_tb(error.__traceback__)
        own = [(frame.f_code, line) for frame, line in calls if frame.f_globals.get("__name__") == subject.module]
        if not own:
            raise
        code, line = own[-1]
        raise Breach(
            f"{code.co_name} raised {type(error).__name__}: {error}, in line {line} of {code.co_filename}",
            f"let {code.co_name} return a value for every pod and every node",
        ) from error


class _Exercise:
    """Records whether a plugin gave different answers: a filter that never rejects a node would pass all checks."""

    def __init__(self, subject: Subject) -> None:
        self.promise = Promise(_EXERCISE, CHECKS[_EXERCISE], lambda subject: subject.decides, self._note)
        self._subject = subject
        self._rejects = False
        self._accepts = False
        self._scores: set[int] = set()

    def missing(self) -> str:
        """Return what was always the same; "" for a plugin that gave different answers."""
        if self._subject.takes_part(Point.FILTER, Point.PRE_FILTER) and not self._rejects:
            return "every node was feasible for every pod"
        if self._subject.takes_part(Point.FILTER) and not self._accepts:
            return "no node was feasible for any pod"
        if self._subject.takes_part(Point.SCORE) and len(self._scores) < 2:
            return f"every node got the same score, {', '.join(map(str, self._scores)) or 'none at all'}"
        return ""

    def _note(self, subject: Subject, example: Example) -> None:
        for pod in (example.pod, example.other):
            answers = ask(*subject.start(example), pod_info(pod))
            self._rejects |= answers.refusal is not None or answers.names is not None
            self._rejects |= any(status.rejected for status in answers.verdicts.values())
            self._accepts |= bool(answers.feasible)
            self._scores.update((answers.scores or {}).values())
