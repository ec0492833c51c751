"""What is to come of the demo: the expectations that make it a success, and the figures of its summary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayplan.cli.demo.spectator import Spectator

CRON_JOBS = ("report", "cleanup", "backup")
CROWD = 100
RESERVED = ("node-a1", "node-b1", "node-b4", "node-c4")
"""The nodes of the control plane and for cron jobs, the cordoned one and the tainted one."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Something that should be seen in the end."""

    what: str
    met: Callable[[Spectator], bool]


EXPECTATIONS = (
    Expectation("the three pods of nginx run", lambda seen: _running(seen, "nginx") == 3),
    Expectation(
        "the CronJobs have fired, and their pods went to the node for cron jobs",
        lambda seen: all(_nodes(seen, name) == {"node-b1"} for name in CRON_JOBS),
    ),
    Expectation(
        "the database is in zone-b, on the big node that it prefers",
        lambda seen: _nodes(seen, "database") == {"node-b2"},
    ),
    Expectation("the pod that tolerates the taint is on that node", lambda seen: _nodes(seen, "batch") == {"node-c4"}),
    Expectation("the two pods with the same host port are on two nodes", lambda seen: len(_nodes(seen, "proxy")) == 2),
    Expectation("the model went where its image is", lambda seen: _nodes(seen, "model") in ({"node-c1"}, {"node-c2"})),
    Expectation("the pod that fits nowhere waits, and says why", lambda seen: _waits(seen, "nowhere")),
    Expectation(f"the crowd of {CROWD} is placed", lambda seen: len(seen.of("crowd")) == CROWD),
    Expectation("nobody else is on a reserved, cordoned or tainted node", lambda seen: _strangers(seen) == 0),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of the summary. Times are seconds."""

    bound: int
    waiting: Sequence[tuple[str, str]]
    """The pods that wait, by `namespace/name`, and why."""
    decisions_per_second: float
    p50: float
    p99: float

    @classmethod
    def of(cls, seen: Spectator, decisions_per_second: float) -> Figures:
        """The figures as they are now."""
        latencies = seen.latencies()
        return cls(
            bound=len(seen.placed),
            waiting=[(pod.key, reason) for pod, reason in seen.waiting()],
            decisions_per_second=decisions_per_second,
            p50=percentile(latencies, 50),
            p99=percentile(latencies, 99),
        )


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest of the values that so many percent of them do not exceed; 0 if there are none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _nodes(seen: Spectator, workload: str) -> set[str]:
    return {pod.node_name for pod in seen.of(workload)}


def _running(seen: Spectator, workload: str) -> int:
    return sum(pod.phase == "Running" and pod.labels.get("app") == workload for pod in seen.pods.values())


def _waits(seen: Spectator, workload: str) -> bool:
    return any(pod.name == workload and "Insufficient cpu" in reason for pod, reason in seen.waiting())


def _strangers(seen: Spectator) -> int:
    """Pods on nodes that are not for them."""
    return sum(pod.node_name in RESERVED and pod.labels.get("app") not in {*CRON_JOBS, "batch"} for pod in seen.placed)
