"""A filter that accepts every node and logs each of them. Start here for a filter of your own.

To reject a node, return the reason as a string.

    bayplan extender --plugin examples/extender/always_true_policy.py
"""

import logging

from bayplan import filter_plugin

log = logging.getLogger("always_true")
log.setLevel(logging.INFO)


@filter_plugin
def always_true(pod, node):
    """Accept every node."""
    log.info("pod %s may go to node %s", pod.key, node.name)
