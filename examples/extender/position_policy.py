"""A score that depends only on the position of a node in the request.

The first node gets the worst score, and the eleventh and all later ones get the best.

    bayplan extender --plugin examples/extender/position_policy.py
"""

import numpy as np

from bayplan import score_plugin


@score_plugin
def position(pod, nodes):
    """Score the nodes 0, 10, 20, ... in their order. A parameter named `nodes` gets all nodes at once."""
    return np.minimum(10 * np.arange(len(nodes)), 100)
