"""Builders, clusters and checks for tests of Bayplan and of its users' plugins. Public.

What users need most is imported from here; nothing of it is imported before it is asked for.
"""

from typing import TYPE_CHECKING

from bayplan.lazy import lazily

if TYPE_CHECKING:
    from bayplan.testing.asking import ask_filter, ask_scores
    from bayplan.testing.builders import (
        Cluster,
        make_cluster,
        make_namespace,
        make_node,
        make_pod,
        make_service,
        pod_affinity,
        pod_term,
        spread_over,
    )
    from bayplan.testing.contract import CHECKS, BrokenContract, check_contract
    from bayplan.testing.live import LiveCluster

_PLACES = {
    "BrokenContract": "contract",
    "CHECKS": "contract",
    "Cluster": "builders",
    "LiveCluster": "live",
    "ask_filter": "asking",
    "ask_scores": "asking",
    "check_contract": "contract",
    "make_cluster": "builders",
    "make_namespace": "builders",
    "make_node": "builders",
    "make_pod": "builders",
    "make_service": "builders",
    "pod_affinity": "builders",
    "pod_term": "builders",
    "spread_over": "builders",
}
"""Where everything lives."""

__all__ = [
    "CHECKS",
    "BrokenContract",
    "Cluster",
    "LiveCluster",
    "ask_filter",
    "ask_scores",
    "check_contract",
    "make_cluster",
    "make_namespace",
    "make_node",
    "make_pod",
    "make_service",
    "pod_affinity",
    "pod_term",
    "spread_over",
]


__getattr__ = lazily(__name__, _PLACES)


def __dir__() -> list[str]:
    """The names that users may import."""
    return sorted(__all__)
