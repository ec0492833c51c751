"""Bayplan: a Kubernetes scheduler, and a framework for writing schedulers.

The public API is the `__all__` of `bayplan`, `bayplan.plugin`, `bayplan.testing`, `bayplan.client`, `bayplan.insight`
and `bayplan.history`; see docs/api.md. Everything else is internal and may change in any release.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.faces.cli.run import run
    from bayplan.plugin import (
        SKIP,
        Action,
        ClusterEvent,
        Code,
        CycleState,
        EventHint,
        Handle,
        Hint,
        NodeInfo,
        NodeNames,
        Nodes,
        Plugin,
        PodInfo,
        PostFilterResult,
        Rejections,
        Status,
        Wait,
        filter_plugin,
        score_plugin,
    )

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
    "run",
    "score_plugin",
]

__getattr__, __dir__ = lazily(__name__)
