"""Builders, clusters and checks for tests of plugins, schedulers and controllers. Public; see docs/testing.md.

The pytest fixtures are in `bayplan.testing.fixtures`, the plugin contract in `bayplan.testing.contract`. Nothing is
imported before it is used. What only this project's tests need is in tests/support.

Other packages use `conformance`, `scenarios`, `virtual_time`.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

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
    from bayplan_devcluster.apiserver import ADMIN, Address, ApiServer, Fault, Tls, User

__all__ = [
    "ADMIN",
    "CHECKS",
    "Address",
    "ApiServer",
    "BrokenContract",
    "Cluster",
    "Fault",
    "LiveCluster",
    "Tls",
    "User",
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

__getattr__, __dir__ = lazily(__name__)
