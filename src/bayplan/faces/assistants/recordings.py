"""why and replay as tools, about a recording that the user names when the server starts.

A model can't name files or plugins: only what the user named is read and loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.settings import with_settings
from bayplan.answers.insight.answers import Answer, Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.question_parameters import (
    ConfigurationObject,
    Name,
    Namespace,
    Option,
    PodName,
    Question,
    pod_key,
)
from bayplan.answers.replay.candidates import ask_another
from bayplan.answers.replay.causes import explained
from bayplan.answers.replay.outcome import OtherReplay, OtherReplays, Replays, StoppedBefore
from bayplan.answers.replay.policies import Policy, other_policy, recorded_policy
from bayplan.answers.replay.recorded_plugins import NamedPlugins, beside
from bayplan.answers.replay.replay import Moment, Replayed
from bayplan.answers.replay.wanted import DecisionSelector, cluster_before, find
from bayplan.answers.replay.why import AskedDecision, Moves, Why
from bayplan.core.config import Catalog, ConfigurationError, PluginLoadError, load_plugins
from bayplan.core.config.documents import Document
from bayplan.core.config.loading import read_document_of
from bayplan.core.versions import emulated_version, gates_of
from bayplan.faces.asking.served_questions import PastQuestions
from bayplan.foundations.bounded_files import UnusableFileError
from bayplan.running.recording.files import Recording, RecordingError

Subject = Literal["decision", "eviction", "moves"]
_PLUGIN = Option("--plugin")


@dataclass(frozen=True, slots=True)
class NamedRecording:
    """A recording, and the references to plugins that the user names: only these are ever loaded.

    `references`: those that were recorded.
    """

    path: str
    references: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of commands that name the plugins."""
        return tuple(_PLUGIN.spelled(self.references))

    @contextmanager
    def opened(self) -> Iterator[tuple[list[Recording], NamedPlugins]]:
        """Read the recording. Its errors, also those of its use in the context, become QuestionErrors of one line."""
        try:
            yield Recording.runs(Path(self.path)), NamedPlugins(self.references)
        except (RecordingError, UnusableFileError, ConfigurationError, PluginLoadError) as error:
            raise QuestionError("; ".join(str(error).splitlines())) from None


class AskingWhy(Question, frozen=True, kw_only=True):
    """Return why something was decided about a pod of the server's recording, as the scheduler saw the cluster then."""

    name: ClassVar[str] = "why"
    example: ClassVar[Mapping[str, Any]] = {"pod": "default/web-0"}
    pod: Annotated[PodName, Option("", pod=True)]
    namespace: Namespace = "default"
    at: (
        Annotated[
            Name,
            Meta(
                description="The last decision before this time. Default: the last one.",
                examples=["2026-03-02T03:12:00Z", "03:12"],
            ),
            Option("--at"),
        ]
        | None
    ) = None
    about: Annotated[
        Subject, Meta(description="eviction: why the pod was evicted. moves: each time that it was placed.")
    ] = "decision"

    def within(self, recording: NamedRecording, progress: Progress) -> Why | Moves:
        """Ask about a recording. Raises QuestionError."""
        if self.about == "moves":
            if self.at is not None:
                raise QuestionError("at: with moves, the answer is about all times")
            with recording.opened() as (runs, _):
                return Moves.of(runs, pod_key(self.pod, self.namespace), progress)
        key, evicted, warnings = pod_key(self.pod, self.namespace), self.about == "eviction", list[str]()
        wanted = DecisionSelector(self.at, None if evicted else key, key if evicted else None, option="at")
        with recording.opened() as (runs, named):
            decided = find(runs, wanted, warnings.extend, progress)
            policy = recorded_policy(decided.run, named)
            asked = AskedDecision.of(decided, key, evicted=evicted, progress=progress)
            if asked.explains_itself:
                raise QuestionError("\n".join(asked.lines()))
            warnings += policy.changed
            explanation = asked.explained(policy, progress, warnings.extend)
            return Why((*asked.lines(), *(f"warning: {each}" for each in warnings)), explanation)

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of `bayplan why`."""
        yield from super().arguments()
        if self.about != "decision":
            yield "--evicted" if self.about == "eviction" else "--moved"


class Replaying(Question, frozen=True, kw_only=True):
    """Make the decisions of the server's recording again: return the first one that differs, with its causes.

    With until, pod or preemptionOf, stop before that decision. With configuration, settings, emulatedVersion or
    withPlugins, return what another policy would have decided at the same moments.
    """

    name: ClassVar[str] = "replay"
    until: (
        Annotated[Name, Meta(description="Stop before the first decision after this time."), Option("--until")] | None
    ) = None
    pod: (
        Annotated[PodName, Meta(description="Stop before the last decision about this pod."), Option("--pod", pod=True)]
        | None
    ) = None
    preemption_of: (
        Annotated[
            PodName,
            Meta(description="Stop before the decision that evicted this pod."),
            Option("--preemption-of", pod=True),
        ]
        | None
    ) = None
    namespace: Namespace = "default"
    configuration: Annotated[ConfigurationObject, Meta(description="That of the other policy.")] | None = None
    settings: Annotated[
        tuple[Name, ...],
        Meta(description="Settings of the other policy.", max_length=100, examples=[["NodeResourcesFit.weight=5"]]),
        Option("--set"),
    ] = ()
    emulated_version: (
        Annotated[Name, Meta(description="The Kubernetes version of the other policy."), Option("--emulated-version")]
        | None
    ) = None
    with_plugins: Annotated[
        bool, Meta(description="Whether the other policy has all plugins that the server was started with.")
    ] = False

    def within(self, recording: NamedRecording, progress: Progress, shown: int) -> Answer:
        """Ask about a recording. Raises QuestionError."""
        wanted = DecisionSelector(self.until, self._key(self.pod), self._key(self.preemption_of), "until")
        if wanted.pod and wanted.preemption_of:
            raise QuestionError("pod and preemptionOf: expected only one of them")
        if wanted.given and self._asks_another:
            raise QuestionError("until, pod and preemptionOf stop a replay: not with another policy")
        with recording.opened() as (runs, named):
            if wanted.given:
                notes: list[str] = []
                decided = find(runs, wanted, notes.extend, progress)
                cluster_before(decided.run, decided, named, notes.extend, progress)  # says whether it can be reached
                return StoppedBefore(decided, tuple(f"warning: {each}" for each in notes))
            if not self._asks_another:
                return Replays(tuple(_replayed(run, recorded_policy(run, named), progress) for run in runs))
            policies = [recorded_policy(run, named) for run in runs]
            others = [self._other(policy, recording) for policy in policies]
            asked = (ask_another(*each, progress) for each in zip(runs, policies, others, strict=True))
            return OtherReplays(tuple(OtherReplay(found, problem, shown) for found, problem in asked))

    @property
    def _asks_another(self) -> bool:
        return bool(self.configuration is not None or self.settings or self.emulated_version or self.with_plugins)

    def _other(self, recorded: Policy, recording: NamedRecording) -> Policy:
        """The other policy. Raises QuestionError, ConfigurationError or PluginLoadError."""
        version, gates = self.emulated_version, recorded.gates
        try:
            gates = gates if version is None else gates_of(emulated_version(version))
        except ValueError as error:
            raise QuestionError(f"emulatedVersion: {error}") from None
        plugins = beside(recorded.plugins, load_plugins(recording.others) if self.with_plugins else ())
        policy, configuration = recorded, None
        if self.configuration is not None:
            document = Document(dict(self.configuration), "configuration")
            configuration = read_document_of(document, Catalog(plugins, gates)).configuration
        if configuration is not None or self.with_plugins or version is not None:
            policy = other_policy(recorded, configuration, plugins, gates)
        try:
            changed = with_settings(policy.configuration, policy.plugins, self.settings, policy.gates)
        except BacktestError as error:
            raise QuestionError(str(error).replace("--set", "settings:", 1)) from None
        return replace(policy, configuration=changed or policy.configuration)

    def _key(self, pod: str | None) -> str | None:
        return None if pod is None else pod_key(pod, self.namespace)


def recording_questions(recording: NamedRecording) -> Mapping[str, type[Question]]:
    """Return the questions about a recording, by name. It is read anew for each question."""

    class AskWhy(AskingWhy, frozen=True, kw_only=True):
        __doc__ = AskingWhy.__doc__

        def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Answer:
            """The cluster of `insight` doesn't matter, and the answer has no tables to cut."""
            del insight, shown
            return self.within(recording, progress)

        def arguments(self) -> Iterator[str]:
            """Yield the arguments, and the server's recording."""
            yield from (*super().arguments(), "--recording", recording.path, *recording.options)

    class AskReplay(Replaying, frozen=True, kw_only=True):
        __doc__ = Replaying.__doc__

        def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Answer:
            """The cluster of `insight` doesn't matter."""
            del insight
            return self.within(recording, progress, shown)

        def arguments(self) -> Iterator[str]:
            """Yield the arguments, and the server's recording."""
            others = _PLUGIN.spelled(recording.others if self.with_plugins else ())
            yield from (*super().arguments(), recording.path, *recording.options, *others)

    return {each.name: each for each in (AskWhy, AskReplay)}


class RecordingQuestions(PastQuestions):
    """The questions about a recording. `references`: the plugins that the user names. Raises RecordingError."""

    def __init__(self, path: str, references: tuple[str, ...], insight: Insight, longest: float) -> None:
        others = NamedPlugins(references).others(Recording.runs(Path(path)))
        recorded = tuple(each for each in references if each not in others)
        super().__init__(recording_questions(NamedRecording(path, recorded, tuple(others))), path, insight, longest)


def _replayed(run: Recording, policy: Policy, progress: Progress) -> Replayed:
    def visit(moment: Moment) -> bool:
        progress(f"replaying decision {moment.number:,}")
        return False

    replay = policy.replay(run)
    found = replay.run(visit)
    if found.difference is not None:
        found.difference = explained(found.difference, replay, policy.plugins, policy.changed)
    return found
