"""Reads a snapshot from an embedded cluster in this process, without requests."""

from __future__ import annotations

from bayplan.answers.snapshots.documents import collect, stored
from bayplan.answers.snapshots.older_versions import OLDER, updated
from bayplan.answers.snapshots.reading import Reading
from bayplan.answers.snapshots.rights import FOLLOWED
from bayplan.core.api.kinds import Kind
from bayplan_devcluster.cluster import DevCluster


def read_dev_cluster(cluster: DevCluster) -> Reading:
    """The objects that its API server has now, of the kinds that `cluster.read_client` reads, but for leases."""

    def entries(kind: Kind) -> list[bytes]:
        served = cluster.server.storage.served.stored(kind.resource)
        older = next((each for each in OLDER.get(kind, ()) if served and each.version == served.kind.version), kind)
        return [updated(older, entry.raw) for entry in cluster.server.store.collection(kind.resource).select()]

    documents = collect((kind, *stored(kind, raw)) for kind in FOLLOWED for raw in entries(kind))
    return Reading(documents, "the embedded cluster", cluster.clock.now())
