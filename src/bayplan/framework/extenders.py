"""The requests that a scheduling cycle sends to extenders between its stages, and their replies.

The cycle yields a request, and is resumed with the reply, or with an ExtenderError thrown in. The cluster state does
not change in between. Mirrors the Extender interface (k8s.io/kube-scheduler/framework/extender.go).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate
from bayplan.framework.status import Status

EXTENDER = "Extender"
"""The plugin name of rejections by extenders. Every event requeues such a pod."""


class ExtenderError(Exception):
    """An extender that is not ignorable did not reply, or its reply is invalid."""


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
