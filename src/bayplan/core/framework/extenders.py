"""The requests that a scheduling cycle sends to extenders between its stages, and their replies.

The cycle yields a request, and is resumed with the reply, or with an ExtenderError thrown in. The cluster state does
not change in between. Mirrors the Extender interface (k8s.io/kube-scheduler/framework/extender.go).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import Candidate
from bayplan.core.framework.status import Status

EXTENDER = "Extender"
"""The plugin name of rejections by extenders. Every event requeues such a pod."""


class ExtenderError(Exception):
    """An extender that is not ignorable did not reply, or its reply is an error or invalid.

    `sent`: of a request without a valid reply, whether the extender may have received it, and may still act on it. None
    for an error that the extender reports: it may have acted nevertheless, as a server with the status 500.
    """

    def __init__(self, message: str, *, sent: bool | None = None) -> None:
        super().__init__(message)
        self.sent = sent
        self.status = 500 if sent is None else None


@dataclass(frozen=True, slots=True)
class ExtenderFilter:
    """Asks which of the nodes are feasible for the pod. The reply is a `Filtered`."""

    pod: PodInfo
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class Filtered:
    """The names of the feasible nodes (`feasible`), and the statuses of rejected ones (`rejected`).

    A node in neither was dropped without a reason. The status of a node that was not in the request replaces the
    verdict of the filters.
    """

    feasible: Collection[str]
    rejected: Mapping[str, Status]


@dataclass(frozen=True, slots=True)
class ExtenderScore:
    """Asks for scores of the nodes. The reply maps node names to weighted scores (within int64) to be added."""

    pod: PodInfo
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class ExtenderPreempt:
    """Asks which of the candidates are feasible for preemption. The reply is a tuple of candidates.

    `nodes`: all nodes; the reply may name other victims and other nodes.
    """

    pod: PodInfo
    candidates: tuple[Candidate, ...]
    nodes: Nodes


Question = ExtenderFilter | ExtenderScore | ExtenderPreempt
Answer = Filtered | Mapping[str, int] | tuple[Candidate, ...]
