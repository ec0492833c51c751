"""Metrics of the process that prometheus_client does not have. Mirrors client_golang's process collector and
component-base's kubernetes_build_info.
"""

from __future__ import annotations

import platform
import resource
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

KUBERNETES = ("1", "36")
"""The Kubernetes release whose decisions Bayplan makes."""


class BuildCollector:
    """kubernetes_build_info: the Kubernetes release whose decisions Bayplan makes, and Bayplan's version."""

    def collect(self) -> Iterator[Metric]:
        """One sample. Labels that only Go programs have are empty."""
        major, minor = KUBERNETES
        labels = {
            "build_date": "",
            "compiler": platform.python_implementation(),
            "git_commit": "",
            "git_tree_state": "",
            "git_version": f"v{major}.{minor}+bayplan.{version('bayplan')}",
            "go_version": "",
            "major": major,
            "minor": minor,
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
        family = GaugeMetricFamily("kubernetes_build_info", "Versions and platform.", labels=list(labels))
        family.add_metric(list(labels.values()), 1)
        yield family


class LimitsAndTraffic:
    """process_virtual_memory_max_bytes and, if there is a /proc, process_network_*."""

    def collect(self) -> Iterator[Metric]:
        """The limit of the address space, and the traffic of the process's network namespace."""
        _, limit = resource.getrlimit(resource.RLIMIT_AS)
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Limit of the virtual memory of the process.",
            value=2.0**64 if limit == resource.RLIM_INFINITY else float(limit),
        )
        traffic = _traffic()
        for name, verb, octets in (("receive", "received", "InOctets"), ("transmit", "sent", "OutOctets")):
            if octets in traffic:
                yield CounterMetricFamily(
                    f"process_network_{name}_bytes", f"Bytes {verb} over the network.", value=traffic[octets]
                )


def _traffic() -> dict[str, int]:
    """The IpExt line of /proc/self/net/netstat; empty if there is none."""
    try:
        lines = Path("/proc/self/net/netstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.startswith("IpExt:"):
            return dict(zip(names.split()[1:], map(int, values.split()[1:]), strict=False))
    return {}
