"""What the service needs of extenders, however they are reached, and how a cycle is run that asks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.extenders import Answer, ExtenderError, Question
from bayplan.scheduling import Cycle, Decision


class Extenders(Protocol):
    """All extenders of a scheduler together. Implemented by extender.client.HttpExtenders."""

    @property
    def want_nodes(self) -> bool:
        """Whether any of them is sent whole nodes, so that the JSON of nodes has to be kept."""

    def have_a_say(self, pod: PodInfo) -> bool:
        """Whether any of them is to be asked while this pod is decided."""

    async def answer(self, question: Question) -> Answer:
        """What they answer to a question of a cycle, in the form that goes with it. Raises ExtenderError."""

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Have one of them bind the pod. Returns False if none does that for this pod. Raises ExtenderError."""


@dataclass(frozen=True, slots=True)
class FencedExtenders:
    """Passes everything on to `extenders`, but has nobody bind while `leads` says no. Implements Extenders."""

    extenders: Extenders
    leads: Callable[[], bool]

    @property
    def want_nodes(self) -> bool:
        """Whether any of them is sent whole nodes."""
        return self.extenders.want_nodes

    def have_a_say(self, pod: PodInfo) -> bool:
        """Whether any of them is to be asked while this pod is decided."""
        return self.extenders.have_a_say(pod)

    async def answer(self, question: Question) -> Answer:
        """What they answer to a question of a cycle."""
        return await self.extenders.answer(question)

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Have one of them bind the pod. Raises ExtenderError while somebody else may lead."""
        if not self.leads():
            raise ExtenderError("this scheduler does not lead: nothing is bound")
        return await self.extenders.bind(pod, node_name)


async def drive(cycle: Cycle, extenders: Extenders) -> Decision:
    """Run a cycle to its end, with its questions answered by extenders."""
    try:
        question = next(cycle)
        while True:
            try:
                answer = await extenders.answer(question)
            except ExtenderError as error:
                question = cycle.throw(error)
            else:
                question = cycle.send(answer)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
