"""Named health checks, answered in Kubernetes' forms. Mirrors k8s.io/apiserver/pkg/server/healthz."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

log = logging.getLogger(__name__)

Check = Callable[[], str]
"""Says what is wrong; "" if nothing is. Called in the thread of the endpoints, and must not wait."""

HEALTHZ, LIVEZ, READYZ = "healthz", "livez", "readyz"


class HealthAnswer(NamedTuple):
    """What a health endpoint says."""

    healthy: bool
    text: str


class HealthChecks:
    """The checks of each endpoint, in the order in which they were added. All endpoints have the check `ping`."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {name: {"ping": lambda: ""} for name in (HEALTHZ, LIVEZ, READYZ)}
        self._results: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, bool]] = Counter()

    def add(self, name: str, check: Check, *endpoints: str) -> None:
        """Add a check to endpoints: HEALTHZ, LIVEZ, READYZ. Raises ValueError for a name that is taken."""
        for endpoint in endpoints:
            checks = self._checks[endpoint]
            if name in checks:
                raise ValueError(f"/{endpoint} has a check {name!r} already")
            checks[name] = check

    @property
    def paths(self) -> list[str]:
        """Every path, those of single checks too."""
        return [
            f"/{name}{check}" for name, checks in self._checks.items() for check in ("", *(f"/{c}" for c in checks))
        ]

    def find(self, path: str) -> tuple[str, str] | None:
        """Endpoint and check ("" for all) of a path; None for any other path."""
        endpoint, _, check = path.removeprefix("/").partition("/")
        checks = self._checks.get(endpoint, {})
        return (endpoint, check) if checks and (check in checks or not check) else None

    def answer(self, endpoint: str, check: str, *, verbose: bool, exclude: Collection[str]) -> HealthAnswer:
        """The answer of a whole endpoint, or of one of its checks.

        What is wrong is told by single checks only, and in the log: whole endpoints are open to anybody.
        """
        if check:
            problem = self._ask(endpoint, check)
            return HealthAnswer(False, f"internal server error: {problem}\n") if problem else HealthAnswer(True, "ok")
        lines, problems = [], []
        for name in self._checks[endpoint]:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok\n")
            elif problem := self._ask(endpoint, name):
                lines.append(f"[-]{name} failed: reason withheld\n")
                problems.append(f"{name}: {problem}")
            else:
                lines.append(f"[+]{name} ok\n")
        unknown = sorted(set(exclude) - self._checks[endpoint].keys())
        if unknown:
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if problems:
            log.warning("%s check failed: %s", endpoint, "; ".join(problems))
            return HealthAnswer(False, f"{''.join(lines)}{endpoint} check failed\n")
        return HealthAnswer(True, f"{''.join(lines)}{endpoint} check passed\n" if verbose else "ok")

    def _ask(self, endpoint: str, name: str) -> str:
        try:
            problem = self._checks[endpoint][name]()
        except Exception as error:
            log.exception("the health check %s broke", name)
            problem = f"the check itself broke: {error}"
        self._results[name, endpoint] = not problem
        self._counts[name, endpoint, not problem] += 1
        return problem

    def collect(self) -> Iterator[Metric]:
        """What checks said so far, for /metrics/slis. Mirrors component-base's SLI metrics."""
        latest = GaugeMetricFamily("kubernetes_healthcheck", "The last answer of a check.", labels=("name", "type"))
        for (name, endpoint), healthy in self._results.items():
            latest.add_metric((name, endpoint), float(healthy))
        yield latest
        counts = CounterMetricFamily("kubernetes_healthchecks", "Answers of checks.", labels=("name", "type", "status"))
        for (name, endpoint, healthy), number in self._counts.items():
            counts.add_metric((name, endpoint, "success" if healthy else "error"), number)
        yield counts
