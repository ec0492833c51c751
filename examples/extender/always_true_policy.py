"""A filter that has nothing against any node, and says so in the log: the place to begin.

A reason, as a string, would keep the pod off the node.

    bayplan extender --plugin examples/extender/always_true_policy.py
"""

import logging

from bayplan import filter_plugin

log = logging.getLogger("always_true")
log.setLevel(logging.INFO)


@filter_plugin
def always_true(pod, node):
    """Let every pod go everywhere."""
    log.info("pod %s may go to node %s", pod.key, node.name)
