"""why and replay as tools, about a recording that the user names when the server starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from bayplan.answers.insight.answers import Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.question_parameters import Name, Namespace, PodName, Question, option, pod_key
from bayplan.answers.replay.causes import explained
from bayplan.answers.replay.outcome import Replays
from bayplan.answers.replay.policies import Policy, recorded_policy
from bayplan.answers.replay.recorded_plugins import NamedPlugins
from bayplan.answers.replay.replay import Moment, Replayed
from bayplan.answers.replay.wanted import WantedMoment, find
from bayplan.answers.replay.why import AskedDecision, Why
from bayplan.core.config import ConfigurationError, PluginLoadError
from bayplan.faces.asking.served_questions import PastQuestions
from bayplan.foundations.bounded_files import UnusableFileError
from bayplan.running.recording.files import Recording, RecordingError

Subject = Literal["decision", "eviction"]


@dataclass(frozen=True, slots=True)
class NamedRecording:
    """A recording, and the references to plugins that the user names: only these are ever loaded."""

    path: str
    references: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of commands that name the plugins."""
        return tuple(each for reference in self.references for each in ("--plugin", reference))

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
    pod: PodName
    namespace: Namespace = "default"
    at: (
        Annotated[
            Name,
            Meta(
                description="The last decision before this time. Default: the last one.",
                examples=["2026-03-02T03:12:00Z", "03:12"],
            ),
        ]
        | None
    ) = None
    about: Annotated[Subject, Meta(description="eviction: why the pod was evicted.")] = "decision"

    def within(self, recording: NamedRecording, progress: Progress) -> Why:
        """Ask about a recording. Raises QuestionError."""
        key, evicted, warnings = pod_key(self.pod, self.namespace), self.about == "eviction", list[str]()
        wanted = WantedMoment(self.at, None if evicted else key, key if evicted else None, option="at")
        with recording.opened() as (runs, named):
            decided = find(runs, wanted, warnings.extend, progress)
            policy = recorded_policy(decided.run, named)
            asked = AskedDecision.of(decided, key, evicted=evicted, progress=progress)
            notes = [f"warning: {each}" for each in (*warnings, *policy.changed)]
            return Why((*asked.lines(), *notes), asked.explained(policy, progress))

    def arguments(self) -> Iterator[str]:
        """See Question."""
        yield from ("why", pod_key(self.pod, self.namespace), *option("--at", self.at))
        yield from ("--evicted",) if self.about == "eviction" else ()


class Replaying(Question, frozen=True, kw_only=True):
    """Make the decisions of the server's recording again, and return the first one that differs, with its causes."""

    name: ClassVar[str] = "replay"

    def within(self, recording: NamedRecording, progress: Progress) -> Replays:
        """Ask about a recording. Raises QuestionError."""
        with recording.opened() as (runs, named):
            return Replays(tuple(_replayed(run, recorded_policy(run, named), progress) for run in runs))

    def arguments(self) -> Iterator[str]:
        """See Question."""
        yield "replay"


def recording_questions(recording: NamedRecording) -> Mapping[str, type[Question]]:
    """Return the questions about a recording, by name. It is read anew for each question."""

    class AskWhy(AskingWhy, frozen=True, kw_only=True):
        __doc__ = AskingWhy.__doc__

        def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Why:
            """See Question. The cluster of `insight` doesn't matter, and the answer has no tables to cut."""
            del insight, shown
            return self.within(recording, progress)

        def arguments(self) -> Iterator[str]:
            """See Question."""
            yield from (*super().arguments(), "--recording", recording.path, *recording.options)

    class AskReplay(Replaying, frozen=True, kw_only=True):
        __doc__ = Replaying.__doc__

        def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Replays:
            """See Question. The cluster of `insight` doesn't matter, and the answer has no tables to cut."""
            del insight, shown
            return self.within(recording, progress)

        def arguments(self) -> Iterator[str]:
            """See Question."""
            yield from (*super().arguments(), recording.path, *recording.options)

    return {each.name: each for each in (AskWhy, AskReplay)}


class RecordingQuestions(PastQuestions):
    """The questions about a recording. `references`: the plugins that the user names. Raises RecordingError."""

    def __init__(self, path: str, references: tuple[str, ...], insight: Insight, longest: float) -> None:
        others = NamedPlugins(references).others(Recording.runs(Path(path)))
        recorded = tuple(each for each in references if each not in others)
        super().__init__(recording_questions(NamedRecording(path, recorded)), path, insight, longest)


def _replayed(run: Recording, policy: Policy, progress: Progress) -> Replayed:
    def visit(moment: Moment) -> bool:
        progress(f"replaying decision {moment.number:,}")
        return False

    replay = policy.replay(run)
    found = replay.run(visit)
    if found.difference is not None:
        found.difference = explained(found.difference, replay, policy.plugins, policy.changed)
    return found
