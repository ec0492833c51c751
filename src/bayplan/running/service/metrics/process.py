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

from bayplan.core.versions import DEFAULT_GATES, GATES, FeatureGates, Version
from bayplan.core.versions.table import Maturity


def build_info(kubernetes: Version) -> dict[str, str]:
    """The version of Kubernetes that Bayplan decides as, and Bayplan's own, in the fields of a version.Info.

    Those that only Go programs have are empty.
    """
    major, minor = kubernetes.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{kubernetes}+bayplan.{version('bayplan')}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


_LABELS = {"gitVersion": "git_version", "gitCommit": "git_commit", "gitTreeState": "git_tree_state"}
_LABELS |= {"buildDate": "build_date", "goVersion": "go_version"}


class BuildCollector:
    """kubernetes_build_info and kubernetes_feature_enabled: the version that Bayplan decides as, and its gates."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._gates = gates

    def collect(self) -> Iterator[Metric]:
        """One sample of the version, and one of each gate that it has."""
        labels = {_LABELS.get(name, name): value for name, value in build_info(self._gates.version).items()}
        family = GaugeMetricFamily("kubernetes_build_info", "Versions and platform.", labels=sorted(labels))
        family.add_metric([labels[name] for name in sorted(labels)], 1)
        yield family
        help_text = "Whether a feature gate is on (1) or off (0)."
        features = GaugeMetricFamily("kubernetes_feature_enabled", help_text, labels=["name", "stage"])
        for name, gate in GATES.items():
            stage = gate.stage(self._gates.version)
            if stage is not None:
                maturity = "" if stage.maturity is Maturity.GA else stage.maturity.upper()
                features.add_metric([name, maturity], name in self._gates.on)
        yield features


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
