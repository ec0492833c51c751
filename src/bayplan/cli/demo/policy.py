"""The policy of the demo's scheduler, as anybody would write one: `bayplan run --plugin policy.py`."""

from bayplan import NodeInfo, PodInfo, filter_plugin


@filter_plugin
def tier(pod: PodInfo, node: NodeInfo) -> str | None:
    """Keep ordinary pods off the control plane, and off the nodes for cron jobs."""
    offered = node.labels.get("tier")
    if offered == "control":
        return "node is reserved for the control plane"
    if offered == "cronjob" and (pod.spec.nodeSelector or {}).get("tier") != "cronjob":
        return "node is reserved for cron jobs"
    return None
