"""A policy in a file: nodes and pods have a tier.

Nodes with the label tier=control accept no pods. Nodes with the label tier=cronjob accept only pods that select this
tier, and these pods run nowhere else. All other pods go to a random node. If no node is feasible, the pod stays
pending, with the reasons in its status.

    bayplan run --plugin examples/tier_policy.py
    python examples/tier_policy.py --kubeconfig FILE       # does the same
    kubectl apply -f examples/manifests/cronjobs.yaml
"""

import random
import sys

from bayplan import filter_plugin, run, score_plugin


@filter_plugin
def tier(pod, node):
    """Keep pods on their tier."""
    wanted = (pod.spec.nodeSelector or {}).get("tier")
    offered = node.labels.get("tier")
    if offered == "control":
        return "node is reserved for the control plane"
    if offered == "cronjob" and wanted != "cronjob":
        return "node is reserved for cron jobs"
    if offered != "cronjob" and wanted == "cronjob":
        return "node is not for cron jobs"
    return None


@score_plugin(weight=10_000)  # more than all other scores combined
def chance(pod, node):
    """Give each node a random score."""
    return random.randint(0, 100)


if __name__ == "__main__":
    run(["--plugin", __file__, *sys.argv[1:]])
