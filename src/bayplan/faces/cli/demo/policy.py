"""The plugin of the demo's scheduler. You can also use it with `bayplan run --plugin policy.py`."""

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
