"""Whether disruption budgets allow the eviction of a pod, as the eviction subresource decides.

Mirrors Kubernetes' pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from bayplan.answers.insight.readiness import is_ready
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.cluster.pod_info import PodInfo

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def objection(pod: PodInfo, budgets: list[tuple[str, Any]]) -> str:
    """Return why the budgets of a pod do not allow its eviction now; "" if they do."""
    if not budgets or pod.terminating or pod.phase == "Pending":
        return ""
    if len(budgets) > 1:
        return _SEVERAL
    budget = budgets[0][1]
    allowed, wanted, healthy = _numbers(budget)
    if not is_ready(pod) and (budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow" or healthy >= wanted > 0):
        return ""
    if allowed > 0:
        return ""
    name = budget.metadata.name
    if healthy <= wanted:
        return f"{_VIOLATES} The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
    return f"{_VIOLATES} The disruption budget {name} does not allow evicting pods currently"


def replaced(world: World, key: str, most: int) -> None:
    """Count a pod of a budget as healthy again after its replacement got a node. `most`: disruptions at the start."""
    budget = world.state.objects[POD_DISRUPTION_BUDGET].get(key)
    if budget is None or budget.status is None:
        return
    allowed, _, healthy = _numbers(budget)
    status = structs.replace(budget.status, disruptionsAllowed=min(allowed + 1, most), currentHealthy=healthy + 1)
    world.change(POD_DISRUPTION_BUDGET, key, structs.replace(budget, status=status))


def allowed_by(budget: Any) -> int:
    """Return how many pods of a budget may be evicted at once."""
    return _numbers(budget)[0]


def _numbers(budget: Any) -> tuple[int, int, int]:
    status = budget.status
    if status is None:
        return 0, 0, 0
    return status.disruptionsAllowed or 0, status.desiredHealthy or 0, status.currentHealthy or 0
