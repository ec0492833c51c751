"""The interface through which a scheduler calls extenders, whatever the transport.

`bayplan.running.extender.client` implements it over HTTP. The questions and answers of an attempt are values of
`bayplan.core.framework.extenders`; the attempt yields them, and the driver asks here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config.types import Extender
from bayplan.core.framework.extenders import Answer, Question


class Extenders(Protocol):
    """All extenders of a scheduler. Implemented by extender.client.HttpExtenders."""

    @property
    def want_nodes(self) -> bool:
        """Whether any extender receives whole nodes, so that the JSON of nodes must be kept."""

    def are_asked(self, pod: PodInfo) -> bool:
        """Whether any extender is consulted about this pod."""

    async def answer(self, question: Question) -> Answer:
        """Answer a question of an attempt, in the form that the question's docstring names. Raises ExtenderError."""

    async def bind(self, pod: PodInfo, node_name: str) -> bool:
        """Let an extender bind the pod. Returns False if no extender binds this pod. Raises ExtenderError."""


def interested(extender: Extender, pod: PodInfo) -> bool:
    """Whether the pod requests a resource that the extender manages. Without managed resources, always true."""
    managed = {resource.name for resource in extender.managedResources}
    if not managed:
        return True
    for container in (*(pod.spec.containers or ()), *(pod.spec.initContainers or ())):
        wants = container.resources
        if wants and not managed.isdisjoint({*(wants.requests or ()), *(wants.limits or ())}):
            return True
    return False


def are_asked(extenders: Iterable[Extender], pod: PodInfo) -> bool:
    """Whether any extender filters, prioritizes or preempts for this pod."""
    return any(
        (each.filterVerb or each.prioritizeVerb or each.preemptVerb) and interested(each, pod) for each in extenders
    )
