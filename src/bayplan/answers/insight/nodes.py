"""Single nodes of a world by their names."""

from __future__ import annotations

from collections.abc import Collection

from bayplan.answers.insight.answers import QuestionError, listed
from bayplan.answers.simulation.world import World
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.cluster.nodes import NodeInfo
from bayplan.core.cluster.pod_info import PodInfo


def node_of(world: World, name: str) -> NodeInfo | None:
    """Return a node; None if there is none of that name."""
    position = world.state.nodes.position(name)
    return None if position is None else world.state.nodes.info(position)


def node_at(world: World, name: str) -> NodeInfo:
    """Return a node that exists."""
    node = node_of(world, name)
    assert node is not None
    return node


def position_of(world: World, name: str) -> int:
    """Return the position of a node. Raises QuestionError, which offers nodes with similar names, if there is none."""
    position = world.state.nodes.position(name)
    if position is None:
        raise QuestionError(no_node(name, world.state.table.row_of))
    return position


def no_node(name: str, known: Collection[str], where: str = "") -> str:
    """Say that there is no node of this name, and which have similar names."""
    near = sorted(each for each in known if name in each)
    return f"there is no node {name}{where}{f'; there is {listed(near)}' if near else did_you_mean(name, known)}"


def pods_on(world: World, name: str) -> list[PodInfo]:
    """Return the pods on a node; none if there is no such node."""
    position = world.state.nodes.position(name)
    return [] if position is None else list(world.state.nodes.pods(position))
