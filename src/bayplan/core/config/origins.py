"""Where well-known plugins come from that Bayplan doesn't have, for messages about them."""

from __future__ import annotations

from bayplan.core.config.types import KubeSchedulerProfile

SCHEDULER_PLUGINS = "the scheduler-plugins project (kubernetes-sigs)"
KOORDINATOR = "Koordinator"
_OPEN_SIMULATOR = "Alibaba's open-simulator, or a simulator made from it"

_PLUGINS = {
    SCHEDULER_PLUGINS: ("CrossNodePreemption",),
    KOORDINATOR: (
        "BatchResourceFit",
        "CompatibleDefaultPreemption",
        "DefaultPreBind",
        "DeviceShare",
        "ElasticQuota",
        "LoadAwareScheduling",
        "NodeNUMAResource",
        "Reservation",
        "SchedulingHint",
    ),
    f"{SCHEDULER_PLUGINS} and {KOORDINATOR}": ("NodeResourcesFitPlus", "ScarceResourceAvoidance"),
    "Volcano's scheduler": (
        "binpack",
        "capacity",
        "conformance",
        "deviceshare",
        "drf",
        "gang",
        "network-topology-aware",
        "nodegroup",
        "nodeorder",
        "numaaware",
        "overcommit",
        "predicates",
        "priority",
        "proportion",
        "rescheduling",
        "resource-strategy-fit",
        "resourcequota",
        "sla",
        "task-topology",
        "tdm",
        "usage",
    ),
    "Crane's crane-scheduler": ("Dynamic",),
    "Katalyst": (
        "NodeOvercommitment",
        "NoderesourcesBalancedAllocation",
        "QoSAwareNodeResourcesBalancedAllocation",
        "QoSAwareNodeResourcesFit",
    ),
    "Apache YuniKorn": ("YuniKornPlugin",),
    "flux-k8s (Fluence)": ("Fluence",),
    "Keptn": ("KLCPermit",),
    _OPEN_SIMULATOR: (
        "BestFitScore",
        "DotProductScore",
        "FGDScore",
        "GpuClusteringScore",
        "GpuPackingScore",
        "Open-Gpu-Share",
        "Open-Local",
        "PWRScore",
        "RandomScore",
        "Simon",
        "WorstFitScore",
    ),
}
_ORIGINS = {name: origin for origin, names in _PLUGINS.items() for name in names}

COSCHEDULING = "Coscheduling"
_KOORDINATORS_ARGUMENTS = frozenset(
    {
        "awareNetworkTopology",
        "controllerWorkers",
        "defaultMatchPolicy",
        "defaultTimeout",
        "enablePreemption",
        "skipCheckScheduleCycle",
    }
)
"""Arguments of Koordinator's Coscheduling, which scheduler-plugins' hasn't."""
_SIMULATED = "Wrapped"
"""kube-scheduler-simulator adds this to the name of each plugin."""


def origin_of(name: str) -> str:
    """The project that a plugin comes from; "" if it isn't known."""
    if name in _ORIGINS:
        return _ORIGINS[name]
    return "kube-scheduler-simulator" if name.endswith(_SIMULATED) and name != _SIMULATED else ""


def is_koordinators(name: str, profile: KubeSchedulerProfile) -> bool:
    """Whether a plugin of the profile is Koordinator's Coscheduling, which isn't that of scheduler-plugins.

    Its arguments tell, or another plugin that only Koordinator has.
    """
    if name != COSCHEDULING:
        return False
    given = {field for config in profile.pluginConfig if config.name == COSCHEDULING for field in config.args}
    others = {origin_of(each) for each in profile.plugins.enabled_names()}
    return bool(given & _KOORDINATORS_ARGUMENTS) or KOORDINATOR in others
