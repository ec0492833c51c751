"""when: in how long pods start, as the cluster goes on from now, and what lets them or would let them sooner.

The cluster is simulated forward many times (`forecast.py`), with the run times that are known (`durations.py`). Pods
that nobody has created yet are not foreseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, Stopped, plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.admission import Admission, AskedWorkload
from bayplan.answers.insight.questions.explain import explain
from bayplan.answers.insight.questions.forecast import Forecast, ForecastRun, ForecastSetting
from bayplan.answers.insight.questions.sooner import Variation, variations
from bayplan.answers.insight.questions.starts import (
    Known,
    NodeShare,
    StartTimes,
    WaitedFor,
    clock,
    likely_nodes,
    runs_of,
    times_of,
    waited_for,
)
from bayplan.answers.insight.tables import labelled, table
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo

AUTO, YES, NO = "auto", "yes", "no"
"""Whether to try what would be sooner; `auto`: if that isn't too much work."""
_SEEDS = (39, 19, 9, 5, 3)
"""With how many seeds a variation is tried."""
_WORK = 100_000
"""The attempts of the scheduler that all variations may take, unless they are asked for."""
_HELPS = 3


@dataclass(frozen=True, slots=True)
class Sooner:
    """What would be different with a change. `p50`: of the start then. `sooner`: by how many seconds; None if it
    starts only with the change, or never.
    """

    change: str
    p50: float | None
    sooner: float | None

    @property
    def text(self) -> str:
        """The difference for people."""
        if self.sooner is None:
            return "-" if self.p50 is None else "in place of never"
        return (
            clock(self.sooner)
            if self.sooner >= 1
            else "no sooner"
            if self.sooner > -1
            else f"{clock(-self.sooner)} later"
        )


@dataclass(frozen=True, slots=True)
class Unless:
    """Why a pod never starts, whatever is foreseen. `help`: what would let it."""

    pod: str
    message: str
    help: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class When(Answer):
    """When something starts: all of the `pods` that it has.

    `start`: of the last of them; `first`: of the first one. `nodes`: the likely ones. `waits`: for whose end it waits.
    `sooner`: what would change that. `known`: how far the answer can be trusted. `never`: the share of the runs in
    which it doesn't start, and `unless` says why if it doesn't in most. `runs`: how often it was simulated.
    `admission`: why Kueue doesn't admit it; `start` is then when its quota is free, and it starts then at the earliest.
    """

    what: str
    pods: int
    start: StartTimes
    first: StartTimes
    runs: int
    known: Known
    nodes: tuple[NodeShare, ...] = ()
    waits: tuple[WaitedFor, ...] = ()
    sooner: tuple[Sooner, ...] = ()
    never: float = 0.0
    unless: Unless | None = None
    admission: Admission | None = None
    notes: tuple[str, ...] = ()
    shown: int = 20
    stopped: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether the answer is of fewer runs than were wanted."""
        return self.stopped

    @property
    def passes(self) -> bool:
        """Whether the pods start."""
        return self.start.p50 is not None

    @property
    def next_steps(self) -> Sequence[str]:
        """What lets them start sooner."""
        return [*(self.unless.help if self.unless is not None else ()), *(each.change for each in self.sooner)]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/when.md."""
        waits_for = [each.pod for each in self.waits]
        others = fields_of(self, "start", "known", "stopped")
        return {**fields_of(self.start), "waitsFor": waits_for, **others, **self.known.fields(stopped=self.stopped)}

    def rows(self) -> list[dict[str, Any]]:
        """Return the likely nodes."""
        return [fields_of(each) for each in self.nodes]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, the likely nodes, what is waited for, and what would be sooner."""
        limit = 0 if wide else self.shown
        parts: list[RenderableType] = [Text(self._headline(), style="bold")]
        if self.pods > 1 and self.first != self.start:
            parts.append(Text(f"the first of {plural(self.pods, 'pod')}: {self.first.text}"))
        if self.unless is not None:
            parts.append(Text(f"{self.unless.pod}: {self.unless.message}"))
            parts += [Text(f"  would help: {text}") for text in self.unless.help]
        if self.admission is not None:
            parts += self._admission(limit)
        if self.waits:
            title = ("WAITS FOR THE END OF", "RUNS", "KNOWN BY")
            parts += [
                Text(),
                table(title, self.waits, lambda each: (each.pod, f"{each.share:.0%}", each.source or "evicted"), limit),
            ]
        if self.nodes:
            parts += [
                Text(),
                table(("NODE", "SHARE"), self.nodes, lambda each: (each.node, f"{each.share:.0%}"), limit),
            ]
        if self.sooner:
            title = ("WITH", "STARTS", "SOONER BY")
            parts += [Text(), table(title, self.sooner, lambda each: (each.change, clock(each.p50), each.text))]
        parts += [Text(), Text(f"{self.known.text}; {plural(self.runs, 'run')}")]
        parts += labelled("note", self.notes, limit)
        return Lines(*parts)

    def _admission(self, limit: int) -> Iterator[RenderableType]:
        """Yield why it isn't admitted, and whose ends free its quota."""
        assert self.admission is not None
        yield from map(Text, self.admission.reasons)
        if self.admission.frees:
            title = ("QUOTA IS FREED BY THE END OF", "RUNS", "IN", "FREES", "KNOWN BY")
            row = lambda each: (each.workload, f"{each.share:.0%}", clock(each.ends), each.frees, each.source or "-")  # noqa: E731
            yield from (Text(), table(title, self.admission.frees, row, limit))

    def _headline(self) -> str:
        if self.stopped and not self.runs:
            return f"{self.what}: {INTERRUPTED}"
        begin = f"{INTERRUPTED}: {self.what}" if self.stopped else self.what
        if self.admission is not None:
            if self.start.p50 is None:
                return f"{begin} is not admitted by Kueue, and nothing that is foreseen changes that"
            when_ = "now" if self.start.p50 < 1 else f"in {self.start.text}"
            return f"{begin} is not admitted by Kueue; its quota is free {when_}"
        if self.start.p50 is None:
            often = "" if self.never == 1 else f" in {self.never:.0%} of the runs"
            return f"{begin} never starts{often}, unless something changes"
        if not self.runs:
            return f"{begin} has its node already" if self.pods == 1 else f"{begin}: all pods have their nodes already"
        text = f"{begin} starts {'now' if self.start.p50 < 1 else f'in {self.start.text}'}"
        return f"{text}; never in {self.never:.0%} of the runs" if self.never else text


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedStarts:
    """What is asked: `title` for people, and the pods that are meant, which are in the world.

    `sooner`: AUTO, YES or NO. `admission`: the Workload of Kueue that isn't admitted. `classes`: the priorities of the
    priority classes. `trials`: the arguments of `explain`.
    """

    title: str
    pods: Sequence[PodInfo]
    seed: int = 0
    sooner: str = AUTO
    admission: AskedWorkload | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    trials: Mapping[str, Any] = field(default_factory=dict)


def when(
    world: World, setting: ForecastSetting, wanted: WantedStarts, notes: Sequence[str], shown: int, progress: Progress
) -> When:
    """Return when the wanted pods start. The world has them, and is as before afterwards."""
    asking = _Asking(world, setting, wanted, progress)
    lines = [*notes, *_placed_already(wanted)]
    if wanted.admission is not None:
        found = asking.admitted(wanted.admission)
    else:
        found = asking.started() if not asking.waiting else asking.simulated()
    if wanted.admission is None and asking.waiting and not found.stopped:
        try:
            if found.start.p50 is None:
                found = replace(found, unless=asking.unless())
            found = replace(found, sooner=asking.sooner())
        except Stopped:
            found = replace(found, stopped=True)
    lines += [*asking.notes, *setting.durations.problems, *setting.durations.unused()]
    return replace(found, notes=tuple(dict.fromkeys(lines)), shown=shown)


def _placed_already(wanted: WantedStarts) -> Iterator[str]:
    placed = [pod for pod in wanted.pods if pod.node_name]
    if len(placed) == 1:
        yield f"pod {placed[0].key} is on {placed[0].node_name} already"
    elif placed:
        yield f"{len(placed):,} of {plural(len(wanted.pods), 'pod')} are on their nodes already"


class _Asking:
    """One question. `waiting`: the wanted pods without a node. `notes`: what there is to say of what was done."""

    def __init__(self, world: World, setting: ForecastSetting, wanted: WantedStarts, progress: Progress) -> None:
        self.waiting = [pod for pod in wanted.pods if not pod.node_name]
        self.notes: list[str] = []
        self._uids = [pod.uid for pod in self.waiting]
        self._world = world
        self._setting = setting
        self._wanted = wanted
        self._progress = progress
        self._known = Known.of(world, setting.durations)
        self._forecast = Forecast(world, setting, self._uids, progress)
        self._runs: list[ForecastRun] = []

    def started(self) -> When:
        """The answer about pods that have their nodes."""
        now, pods = StartTimes(0.0, 0.0, 0.0), self._wanted.pods
        nodes = tuple(NodeShare(pod.node_name, 1.0) for pod in pods[:1])
        return When(self._wanted.title, len(pods), now, now, 0, self._known, nodes)

    def admitted(self, asked: AskedWorkload) -> When:
        """The answer about a workload that Kueue doesn't admit."""
        setting, pods = self._setting, self._world.state.objects[POD].values()
        found = asked.foreseen(setting.durations, pods, self._wanted.seed, setting.runs, self._progress)
        if found.start.p50 is not None:
            self.notes.append(
                "its pods need room, too, once it is admitted: `bayplan explain` says if there is some now"
            )
        number, never = len(self._wanted.pods), float(found.start.p50 is None)
        return When(
            self._wanted.title,
            number,
            found.start,
            found.start,
            found.runs,
            self._known,
            never=never,
            admission=found,
            stopped=found.stopped,
        )

    def simulated(self) -> When:
        """What the runs say."""
        uids = self._uids
        runs, stopped = runs_of(self._forecast, self._wanted.seed, self._setting.runs, self._tell)
        start, first = times_of(runs, uids)
        never = sum(any(uid not in run.starts for uid in uids) for run in runs) / max(len(runs), 1)
        self._runs = runs
        return When(
            self._wanted.title,
            len(self._wanted.pods),
            start,
            first,
            len(runs),
            self._known,
            likely_nodes(runs, uids),
            waited_for(runs, uids, self._source_of),
            never=round(never, 4),
            stopped=stopped,
        )

    def _tell(self, runs: Sequence[ForecastRun]) -> None:
        self._progress(f"{plural(len(runs), 'run')}: starts in {times_of(runs, self._uids)[0].text}")

    def _source_of(self, key: str) -> str:
        pod = self._world.pod(key)
        found = None if pod is None else self._setting.durations.of(pod)
        return "" if found is None else found.source

    def unless(self) -> Unless:
        """Explain the first pod that starts in no run, or in the fewest. Raises Stopped."""
        pod = min(self.waiting, key=lambda each: sum(each.uid in run.starts for run in self._runs))
        trials = self._wanted.trials
        found = explain(self._world, pod, helps=_HELPS, nearest=1, progress=self._progress, **trials)
        if found.interrupted:
            raise Stopped
        message = found.message or next(iter(found.notes), "nothing that was read says why")
        return Unless(pod.key, message, tuple(each.text for each in found.help))

    def sooner(self) -> tuple[Sooner, ...]:
        """Try each variation with the first seeds of the runs, unless that is too much work. Raises Stopped."""
        start, _ = times_of(self._runs, self._uids)
        if self._wanted.sooner == NO or (start.p50 is not None and start.p50 < 1):
            return ()
        tried = list(variations(self._world, self.waiting, self._wanted.classes))
        attempts = max(run.attempts for run in self._runs) * len(tried)
        number = len(self._runs)
        if self._wanted.sooner != YES:
            number = min(next((each for each in _SEEDS if each * attempts <= _WORK), 0), number)
        if not number:
            self.notes.append("what would be sooner was not tried, because that takes long here: ask with --sooner yes")
            return ()
        before, _ = times_of(self._runs[:number], self._uids)
        found = []
        for variation in tried:
            self._progress(f"with {variation.text}")
            with suppress(ValueError):  # the pods can't be read with it, as with a class whose value is too large
                found.append(self._with(variation, before, number))
        return tuple(sorted(found, key=lambda each: (each.p50 is None, each.p50)))

    def _with(self, variation: Variation, before: StartTimes, number: int) -> Sooner:
        seeds = range(self._wanted.seed, self._wanted.seed + number)
        runs = [self._forecast.run(seed, variation.make) for seed in seeds]
        p50 = times_of(runs, self._uids)[0].p50
        sooner = None if p50 is None or before.p50 is None else round(before.p50 - p50, 1)
        return Sooner(variation.text, p50, sooner)
