"""What is asked of those outside, HTTP extenders above all, between the stages of a cycle: questions and answers.

A cycle yields a question and is resumed with its answer, or has an ExtenderError thrown in. Until then the cluster that
the question speaks of stands still. Mirrors the Extender interface (k8s.io/kube-scheduler/framework/extender.go).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import Candidate
from bayplan.framework.status import Status

EXTENDER = "Extender"
"""The name under which extenders turn pods down. Any event may help such a pod."""


class ExtenderError(Exception):
    """Somebody outside gave no answer, or one that makes no sense, and must not be passed over."""


@dataclass(frozen=True, slots=True)
class ExtenderFilter:
    """Which of these nodes may the pod have? Answered with `Filtered`."""

    pod: PodInfo
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class Filtered:
    """The names of the nodes that the pod may have, and why it may not have others.

    A node with neither was dropped without a word. What is said of a node that was not asked about replaces what the
    filters said of it.
    """

    left: Collection[str]
    refused: Mapping[str, Status]


@dataclass(frozen=True, slots=True)
class ExtenderScore:
    """What is to be added to the scores of these nodes? Answered with numbers by node name, weights applied (int64)."""

    pod: PodInfo
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class ExtenderPreempt:
    """Which of these candidates may be preempted on, and whom does it cost there? Answered with candidates.

    `nodes`: all nodes, for the answer may name other victims, and other nodes.
    """

    pod: PodInfo
    candidates: tuple[Candidate, ...]
    nodes: Nodes


Question = ExtenderFilter | ExtenderScore | ExtenderPreempt
Answer = Filtered | Mapping[str, int] | tuple[Candidate, ...]
