"""Named health checks, with responses in Kubernetes' format. Mirrors k8s.io/apiserver/pkg/server/healthz.

Checks run in the endpoints' thread, and must not block. Summaries are open to everyone, so they name no problem.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

log = logging.getLogger(__name__)

Check = Callable[[], str]
"""Returns the problem; "" if there is none. Called in the endpoints' thread. It must not block."""

HEALTHZ, LIVEZ, READYZ = "healthz", "livez", "readyz"


class HealthResult(NamedTuple):
    """The response of a health endpoint."""

    healthy: bool
    text: str


class HealthChecks:
    """The checks of each endpoint, in the order they were added. Every endpoint has the check `ping`."""

    def __init__(self) -> None:
        self._checks: dict[str, dict[str, Check]] = {name: {"ping": lambda: ""} for name in (HEALTHZ, LIVEZ, READYZ)}
        self._results: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, bool]] = Counter()

    def add(self, name: str, check: Check, *endpoints: str) -> None:
        """Add a check to endpoints: HEALTHZ, LIVEZ, READYZ. Raises ValueError if the name is taken."""
        for endpoint in endpoints:
            checks = self._checks[endpoint]
            if name in checks:
                raise ValueError(f"/{endpoint} already has a check {name!r}")
            checks[name] = check

    @property
    def paths(self) -> list[str]:
        """All paths, including those of single checks."""
        return [
            f"/{name}{check}" for name, checks in self._checks.items() for check in ("", *(f"/{c}" for c in checks))
        ]

    def find(self, path: str) -> tuple[str, str] | None:
        """The endpoint and the check ("" for all checks) of a path; None if it isn't a health path."""
        endpoint, _, check = path.removeprefix("/").partition("/")
        checks = self._checks.get(endpoint, {})
        return (endpoint, check) if checks and (check in checks or not check) else None

    def check(self, endpoint: str, name: str, *, verbose: bool, exclude: Collection[str]) -> HealthResult:
        """Run all checks of an endpoint, or only the check `name`.

        Problems are shown only for single checks and in the log, since the summary is open to everyone.
        """
        if name:
            problem = self._run(endpoint, name)
            return HealthResult(False, f"internal server error: {problem}\n") if problem else HealthResult(True, "ok")
        lines, problems = [], []
        for each in self._checks[endpoint]:
            if each in exclude:
                lines.append(f"[+]{each} excluded: ok\n")
            elif problem := self._run(endpoint, each):
                lines.append(f"[-]{each} failed: reason withheld\n")
                problems.append(f"{each}: {problem}")
            else:
                lines.append(f"[+]{each} ok\n")
        unknown = sorted(set(exclude) - self._checks[endpoint].keys())
        if unknown:
            quoted = ",".join(f'"{each}"' for each in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if problems:
            log.warning("%s check failed: %s", endpoint, "; ".join(problems))
            return HealthResult(False, f"{''.join(lines)}{endpoint} check failed\n")
        return HealthResult(True, f"{''.join(lines)}{endpoint} check passed\n" if verbose else "ok")

    def _run(self, endpoint: str, name: str) -> str:
        try:
            problem = self._checks[endpoint][name]()
        except Exception as error:
            log.exception("health check %s raised an exception", name)
            problem = f"the check raised an exception: {error}"
        self._results[name, endpoint] = not problem
        self._counts[name, endpoint, not problem] += 1
        return problem

    def collect(self) -> Iterator[Metric]:
        """The results of the checks so far, for /metrics/slis. Mirrors component-base's SLI metrics."""
        latest = GaugeMetricFamily("kubernetes_healthcheck", "The latest result of a check.", labels=("name", "type"))
        for (name, endpoint), healthy in self._results.items():
            latest.add_metric((name, endpoint), float(healthy))
        yield latest
        counts = CounterMetricFamily("kubernetes_healthchecks", "Results of checks.", labels=("name", "type", "status"))
        for (name, endpoint, healthy), number in self._counts.items():
            counts.add_metric((name, endpoint, "success" if healthy else "error"), number)
        yield counts
