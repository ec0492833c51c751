"""Reads a snapshot from an embedded cluster in this process, without requests."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.devcluster.cluster import DevCluster
from bayplan.insight.sources.documents import collect, stored
from bayplan.insight.sources.reading import Reading
from bayplan.insight.sources.rights import EFFECTS, REQUIRED


def read_dev_cluster(cluster: DevCluster) -> Reading:
    """The objects that its API server has now, of the kinds that `cluster.read_client` reads."""

    def entries(kind: Kind) -> list[bytes]:
        return [entry.raw for entry in cluster.server.store.collection(kind.resource).select()]

    kinds = (*REQUIRED, *EFFECTS)
    documents = collect((kind, *stored(kind, raw)) for kind in kinds for raw in entries(kind))
    return Reading(documents, "the embedded cluster", cluster.clock.now())
