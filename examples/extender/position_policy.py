"""A score that goes by nothing but the place of a node in the question: the later, the better, up to the eleventh.

The first node of the question gets nothing.

    bayplan extender --plugin examples/extender/position_policy.py
"""

import numpy as np

from bayplan import score_plugin


@score_plugin
def position(pod, nodes):
    """Give 0, 10, 20, ... to the nodes in their order; a parameter called `nodes` is all of them at once."""
    return np.minimum(10 * np.arange(len(nodes)), 100)
