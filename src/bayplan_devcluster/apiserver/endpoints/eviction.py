"""Evicts a pod, if its disruption budget allows it.

Mirrors Kubernetes' pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.api.selectors import read_selector
from bayplan.core.api.status import StatusError, bad_request, forbidden, internal
from bayplan.core.api.times import rfc3339
from bayplan_devcluster.apiserver.endpoints.binding import SUCCESS, set_condition
from bayplan_devcluster.apiserver.schema import Object
from bayplan_devcluster.apiserver.storage.deletion import DeleteOptions, delete, read_options
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.storage.store import Entry

MOST_DISRUPTED = 2000


def evict(
    storage: RestStorage, pods: Resource, namespace: str, name: str, eviction: Object, *, dry_run: bool
) -> Object:
    """Deletes the pod. Raises 429 if its disruption budget does not allow it now."""
    if eviction["metadata"].get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = read_options({"dryRun": "All"} if dry_run else {}, eviction.get("deleteOptions", {}))
    pod = storage.load(pods, namespace, name)
    if not _ignores_budget(pod):
        _check_budget(storage, pod, options)
    if not options.dry_run:
        _set_disruption_target(storage, pods, pod)
    delete(storage, pods, namespace, name, options)
    return SUCCESS


def _ignores_budget(pod: Object) -> bool:
    ended = pod["status"].get("phase") in {"Succeeded", "Failed", "Pending"}
    return ended or "deletionTimestamp" in pod["metadata"]


def _check_budget(storage: RestStorage, pod: Object, options: DeleteOptions) -> None:
    budgets = _budgets(storage, pod)
    if not budgets:
        return
    if len(budgets) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = budgets[0].load()
    status, spec = budget["status"], budget["spec"]
    if not _is_ready(pod):
        if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if status["currentHealthy"] >= status["desiredHealthy"] > 0:
            return
    _spend(storage, pod, budget, options)


def _budgets(storage: RestStorage, pod: Object) -> list[Entry]:
    """Returns the budgets that select the pod."""
    labels = pod["metadata"].get("labels", {})
    found = storage.store.collection(POD_DISRUPTION_BUDGET.resource).select(pod["metadata"]["namespace"])
    return [entry for entry in found if read_selector(entry.load()["spec"].get("selector")).matches(labels)]


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _spend(storage: RestStorage, pod: Object, budget: Object, options: DeleteOptions) -> None:
    """Takes one disruption from the budget. Raises 429 if none is left."""
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    if status["disruptionsAllowed"] < 0:
        raise forbidden(POD_DISRUPTION_BUDGET, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", {})) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(POD_DISRUPTION_BUDGET, name, why)
    if status["disruptionsAllowed"] == 0:
        wanted, healthy = status["desiredHealthy"], status["currentHealthy"]
        why = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= wanted:
            why = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise _too_many(why, 0)
    if options.dry_run:
        return
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = rfc3339(storage.clock.now())
    budgets = storage.served.find("policy", "v1", POD_DISRUPTION_BUDGET.plural)
    assert budgets is not None  # the table of kinds has it
    storage.write(budgets, budget)


def _too_many(why: str, retry_after: int) -> StatusError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return StatusError(429, "TooManyRequests", message, details)


def _set_disruption_target(storage: RestStorage, pods: Resource, pod: Object) -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    before = {"conditions": list(pod["status"].get("conditions", ()))}
    set_condition(pod["status"], condition, rfc3339(storage.clock.now()))
    if pod["status"]["conditions"] != before["conditions"]:
        storage.write(pods, pod)
