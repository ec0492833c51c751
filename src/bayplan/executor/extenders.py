"""The interface of extenders to the service, independent of the transport."""

from __future__ import annotations

from typing import Protocol

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.extenders import Answer, Question


class Extenders(Protocol):
    """All extenders of a scheduler. Implemented by extender.client.HttpExtenders."""

    @property
    def want_nodes(self) -> bool:
        """Whether any extender receives whole nodes, so that the JSON of nodes must be kept."""

    def have_a_say(self, pod: PodInfo) -> bool:
        """Whether any extender is consulted about this pod."""

    async def answer(self, question: Question) -> Answer:
        """Answer a question of an attempt, in the form that the question's docstring names. Raises ExtenderError."""

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Let an extender bind the pod. Returns False if no extender binds this pod. Raises ExtenderError."""
