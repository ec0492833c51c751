"""A policy in a file: nodes have a tier, and so have pods.

Nodes labelled tier=control take nothing; those labelled tier=cronjob take only pods that select that tier, which go
nowhere else. Among the rest, chance decides. A pod that no node takes waits, with the reasons in its status.

    bayplan run --plugin examples/tier_policy.py
    python examples/tier_policy.py --kubeconfig FILE       # the same
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


@score_plugin(weight=10_000)  # more than all other scores together
def chance(pod, node):
    """Find any node as good as any other."""
    return random.randint(0, 100)


if __name__ == "__main__":
    run(["--plugin", __file__, *sys.argv[1:]])
