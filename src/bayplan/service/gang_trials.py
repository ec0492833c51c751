"""Answers a plugin that looks for pods which have to go for a gang: it asks what would fit, and is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState, Thought
from bayplan.framework.interface import GangTrial, GangVictims
from bayplan.framework.status import PluginError, Status
from bayplan.scheduling.gangs import GangAttempt


async def answer_trial(
    state: ClusterState, trial: GangTrial, plugin: str, think: Callable[[], Awaitable[GangAttempt]]
) -> tuple[GangVictims | Status, GangAttempt | None]:
    """Answer a trial of a plugin until it knows who has to go, and see what would be then; the state stays as it is.

    `think` decides the gang. The attempt is that with the victims gone, if there are any. Raises PluginError for a
    plugin that breaks.
    """
    with state.in_thought() as thought:
        gone = _Gone(thought)
        answer = _next(trial, None, plugin)
        while not isinstance(answer, GangVictims | Status):
            gone.become(answer)
            answer = _next(trial, (await think()).fits, plugin)
        if isinstance(answer, Status):
            return answer, None
        gone.become(answer.victims)
        return answer, await think()


class _Gone:
    """The pods that are thought to be gone at present."""

    def __init__(self, thought: Thought) -> None:
        self._thought = thought
        self._uids: dict[str, None] = {}

    def become(self, pods: Collection[PodInfo]) -> None:
        """Think these pods gone, and no others."""
        wanted = dict.fromkeys(pod.uid for pod in pods)
        for uid in [uid for uid in self._uids if uid not in wanted]:
            self._thought.bring_back(uid)
        for uid in [uid for uid in wanted if uid not in self._uids]:
            self._thought.remove(uid)
        self._uids = wanted


def _next(trial: GangTrial, fits: bool | None, plugin: str) -> Collection[PodInfo] | GangVictims | Status:
    """Go on with a trial, or begin it with None."""
    try:
        return next(trial) if fits is None else trial.send(fits)
    except StopIteration as end:
        answer: GangVictims | Status = end.value
        return answer
    except Exception as error:
        raise PluginError(plugin, "GangPostFilter", f"{type(error).__name__}: {error}") from error
