"""The capacity of nodes, of which some Trimaran plugins take shares, where others take what is allocatable."""

from __future__ import annotations

from bayplan.plugin import InvalidQuantity, NodeInfo, amounts_of


def cpu_capacity(node: NodeInfo) -> int:
    """Return the millicores of a node; 0 if it doesn't say them."""
    try:
        return amounts_of({"cpu": (node.status.capacity or {}).get("cpu", "0")}).get("cpu", 0)
    except InvalidQuantity:
        return 0
