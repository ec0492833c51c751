"""The namespaces of a cluster, for questions about one of them."""

from __future__ import annotations

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.owners import WORKLOADS
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import NAMESPACE, POD
from bayplan.core.api.suggestions import did_you_mean


def namespaces_of(world: World, snapshot: Snapshot) -> list[str]:
    """Return the namespaces of a cluster, and those of its pods and workloads where namespaces could not be read."""
    known = {pod.namespace for pod in world.state.objects[POD].values()}
    known.update(key.partition("/")[0] for kind in WORKLOADS for key in snapshot.of_kind(kind))
    return sorted(known.union(snapshot.of_kind(NAMESPACE)))


def check_namespace(world: World, snapshot: Snapshot, namespace: str | None, where: str) -> None:
    """Raise QuestionError if a namespace doesn't exist. Nothing is known if no namespace could be read."""
    if namespace in {None, "default"} or not snapshot.of_kind(NAMESPACE):
        return
    assert namespace is not None
    known = namespaces_of(world, snapshot)
    if namespace not in known:
        raise QuestionError(f"there is no namespace {namespace} in {where}{did_you_mean(namespace, known)}")
