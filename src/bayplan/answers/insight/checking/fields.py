"""Where workloads have the fields that findings are about, as paths from the object."""

from __future__ import annotations

from bayplan.core.api.kinds import CRON_JOB, DEPLOYMENT, JOB, POD, Kind


def spec_of_pods_at(kind: Kind) -> str:
    """The path of the spec of the pods that an object of a kind makes, or is."""
    if kind is POD:
        return "spec"
    return "spec.jobTemplate.spec.template.spec" if kind is CRON_JOB else "spec.template.spec"


def replicas_at(kind: Kind) -> str:
    """The path of the number of pods; of a kind that has none, that of its spec."""
    if kind is POD:
        return "spec"
    return "spec.parallelism" if kind is JOB else "spec.replicas"


def strategy_at(kind: Kind) -> str:
    """The path of how pods are replaced."""
    return "spec.strategy" if kind is DEPLOYMENT else "spec.updateStrategy"
