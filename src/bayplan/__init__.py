"""Bayplan: a Kubernetes scheduler, and a framework to write schedulers in.

Users import from here; what is not re-exported here or in `bayplan.client` and `bayplan.testing` may change.
"""

from typing import TYPE_CHECKING

from bayplan.lazy import lazily

if TYPE_CHECKING:
    from bayplan.cluster.nodes import NodeInfo, Nodes
    from bayplan.cluster.pod_info import PodInfo
    from bayplan.framework.events import Action, ClusterEvent, EventHint, Hint
    from bayplan.framework.functions import filter_plugin, score_plugin
    from bayplan.framework.handle import Handle
    from bayplan.framework.interface import CycleState, NodeNames, Plugin, PostFilterResult, Wait
    from bayplan.framework.status import SKIP, Code, Status
    from bayplan.framework.verdicts import Rejections

_PLACES = {
    "Action": "framework.events",
    "ClusterEvent": "framework.events",
    "Code": "framework.status",
    "CycleState": "framework.interface",
    "EventHint": "framework.events",
    "Handle": "framework.handle",
    "Hint": "framework.events",
    "NodeInfo": "cluster.nodes",
    "NodeNames": "framework.interface",
    "Nodes": "cluster.nodes",
    "Plugin": "framework.interface",
    "PodInfo": "cluster.pod_info",
    "PostFilterResult": "framework.interface",
    "Rejections": "framework.verdicts",
    "SKIP": "framework.status",
    "Status": "framework.status",
    "Wait": "framework.interface",
    "filter_plugin": "framework.functions",
    "score_plugin": "framework.functions",
}
"""Where everything lives: imported when it is asked for, so that `import bayplan` itself costs nothing."""

__all__ = [
    "SKIP",
    "Action",
    "ClusterEvent",
    "Code",
    "CycleState",
    "EventHint",
    "Handle",
    "Hint",
    "NodeInfo",
    "NodeNames",
    "Nodes",
    "Plugin",
    "PodInfo",
    "PostFilterResult",
    "Rejections",
    "Status",
    "Wait",
    "filter_plugin",
    "score_plugin",
]


__getattr__ = lazily(__name__, _PLACES)


def __dir__() -> list[str]:
    """The names that users may import."""
    return sorted(__all__)
