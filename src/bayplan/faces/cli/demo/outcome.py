"""The expected outcome of the demo, and the figures of its summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayplan.benchmarking.measurement import percentile
from bayplan.faces.cli.demo.pod_watcher import PodWatcher

CRON_JOBS = ("report", "cleanup", "backup")
CROWD = 100
RESERVED = ("node-a1", "node-b1", "node-b4", "node-c4")
"""The nodes for the control plane and for cron jobs, the cordoned node and the tainted node."""


@dataclass(frozen=True, slots=True)
class DemoExpectation:
    """A condition that should hold at the end."""

    what: str
    met: Callable[[PodWatcher], bool]


EXPECTATIONS = (
    DemoExpectation("the three pods of nginx are running", lambda seen: _running(seen, "nginx") == 3),
    DemoExpectation(
        "the pods of the CronJobs ran on the node for cron jobs",
        lambda seen: all(_nodes(seen, name) == {"node-b1"} for name in CRON_JOBS),
    ),
    DemoExpectation(
        "the database is in zone-b, on the big node that it prefers",
        lambda seen: _nodes(seen, "database") == {"node-b2"},
    ),
    DemoExpectation(
        "the pod that tolerates the taint is on the tainted node", lambda seen: _nodes(seen, "batch") == {"node-c4"}
    ),
    DemoExpectation(
        "the two pods with the same host port are on different nodes", lambda seen: len(_nodes(seen, "proxy")) == 2
    ),
    DemoExpectation(
        "the model is on a node that has its image", lambda seen: _nodes(seen, "model") in ({"node-c1"}, {"node-c2"})
    ),
    DemoExpectation("the pod that fits nowhere is pending, with the reason", lambda seen: _is_pending(seen, "nowhere")),
    DemoExpectation(f"the {CROWD} pods of crowd are bound", lambda seen: len(seen.of("crowd")) == CROWD),
    DemoExpectation("no other pods are on a reserved, cordoned or tainted node", lambda seen: _misplaced(seen) == 0),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the summary. Times are seconds."""

    bound: int
    pending: Sequence[tuple[str, str]]
    """The pending pods by `namespace/name`, with the reasons."""
    decisions_per_second: float
    p50: float
    p99: float

    @classmethod
    def of(cls, seen: PodWatcher, decisions_per_second: float) -> Figures:
        """The current figures."""
        latencies = seen.latencies()
        return cls(
            bound=len(seen.placed),
            pending=[(pod.key, reason) for pod, reason in seen.pending()],
            decisions_per_second=decisions_per_second,
            p50=percentile(latencies or [0.0], 50),
            p99=percentile(latencies or [0.0], 99),
        )


def _nodes(seen: PodWatcher, workload: str) -> set[str]:
    return {pod.node_name for pod in seen.of(workload)}


def _running(seen: PodWatcher, workload: str) -> int:
    return sum(pod.phase == "Running" and pod.labels.get("app") == workload for pod in seen.pods.values())


def _is_pending(seen: PodWatcher, workload: str) -> bool:
    return any(pod.name == workload and "Insufficient cpu" in reason for pod, reason in seen.pending())


def _misplaced(seen: PodWatcher) -> int:
    """The number of pods on nodes that are reserved for others."""
    return sum(pod.node_name in RESERVED and pod.labels.get("app") not in {*CRON_JOBS, "batch"} for pod in seen.placed)
