"""The objects that `bayplan cluster --filename` starts with: manifests, dumps of a cluster and saved snapshots.

Objects that a server has stored have a uid and a resourceVersion. They are restored with their status and owners. All
others are created.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayplan.core.api.kinds import GATED_KINDS, NODE
from bayplan.core.versions import OLDEST, VERSIONS, Version
from bayplan.foundations.lazy import on_use
from bayplan.foundations.manifest_files import files_in, read_documents
from bayplan_devcluster import manifests
from bayplan_devcluster.manifests import Manifest

with on_use():
    from bayplan import insight
    from bayplan.answers.snapshots import archive


_GATED = {version: {(kind.api_version, kind.kind) for kind in GATED_KINDS[version]} for version in VERSIONS}


@dataclass(slots=True)
class Contents:
    """The objects to restore, and those to create."""

    restored: list[dict[str, Any]] = field(default_factory=list)
    created: list[Manifest] = field(default_factory=list)

    @property
    def node_names(self) -> set[str]:
        """The names of all nodes among them."""
        documents = (*self.restored, *(one.document for one in self.created))
        nodes = (document["metadata"] for document in documents if _header(document) == (NODE.api_version, NODE.kind))
        return {metadata["name"] for metadata in nodes if metadata.get("name")}

    @property
    def have_nodes(self) -> bool:
        """Whether there are nodes to restore, so that the cluster needs none of its own."""
        return any(_header(each) == (NODE.api_version, NODE.kind) for each in self.restored)

    @property
    def version(self) -> Version:
        """The oldest version of Kubernetes that serves some of the objects whose versions differ between releases."""
        found = {_header(each) for each in (*self.restored, *(one.document for one in self.created))}
        versions = (each for each, kinds in _GATED.items() if found & kinds)
        return next(versions, OLDEST)

    @property
    def need_alpha(self) -> bool:
        """Whether there are objects to restore that need the feature gate GenericWorkload."""
        return any(_header(each) in kinds for each in self.restored for kinds in _GATED.values())


def read_contents(paths: Iterable[Path]) -> Contents:
    """The objects in files and folders. Raises ManifestError, and SnapshotError for a saved snapshot."""
    contents = Contents()
    others: list[tuple[dict[str, Any], str]] = []
    for path in paths:
        if path.is_file() and archive.is_archive(path):
            contents.restored += insight.Snapshot.load(path).objects()
            continue
        for document, where in (found for file in files_in(path) for found in read_documents(file)):
            if _is_stored(document):
                contents.restored.append(document)
            else:
                others.append((document, where))
    contents.created = manifests.of(others, contents.restored)
    return contents


def _is_stored(document: dict[str, Any]) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid") and metadata.get("resourceVersion"))


def _header(document: dict[str, Any]) -> tuple[Any, Any]:
    return document.get("apiVersion"), document.get("kind")
