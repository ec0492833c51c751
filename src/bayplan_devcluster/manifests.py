"""Kubernetes manifests: files of YAML or JSON documents. Error messages name the file, document and line.

Documents are ordered so that definitions and namespaces exist before what needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayplan.core.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, VERSIONED_KINDS, Kind
from bayplan.core.api.objects import UndecodableObject, convert
from bayplan.foundations.manifest_files import ManifestError, files_in, read_documents
from bayplan.running.client.client import Client, PatchType
from bayplan.running.client.errors import ApiError

_ESTABLISHED_SECONDS, _POLL_SECONDS = 10.0, 0.05
_OWNERLESS = (
    "it is deleted at once, because no owner in its metadata.ownerReferences exists, and new objects get new uids: "
    "leave out the references, or give all objects their uid and resourceVersion, and they are restored as they were"
)
_KIND_OF = {(kind.api_version, kind.kind): kind for kind in (*KINDS, *VERSIONED_KINDS)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object in a file."""

    kind: Kind
    document: dict[str, Any]
    where: str
    """File, document and line, for messages."""

    @property
    def name(self) -> str:
        """The object's kind and name: "Deployment default/web"."""
        metadata = self.document["metadata"]
        name = metadata.get("name") or f"{metadata.get('generateName')}..."
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.document['kind']} {place}{name}"


def read(paths: Iterable[Path]) -> list[Manifest]:
    """The objects of all files and directories, as `of` orders them. Raises ManifestError."""
    return of([one for path in paths for file in files_in(path) for one in read_documents(file)])


def of(found: Sequence[tuple[dict[str, Any], str]], others: Iterable[Mapping[str, Any]] = ()) -> list[Manifest]:
    """The objects of documents with their places: CustomResourceDefinitions first, then objects without a namespace.

    The kinds are the built-in ones and those that the documents and `others` define. Raises ManifestError.
    """
    kinds = _KIND_OF | dict(_defined([*(document for document, _ in found), *others]))
    manifests = [_manifest(document, where, kinds) for document, where in found]
    return sorted(manifests, key=lambda one: (one.kind is not CUSTOM_RESOURCE_DEFINITION, one.kind.namespaced))


async def create(client: Client, manifests: Sequence[Manifest]) -> None:
    """Create the objects, or patch those that exist, including their status if it is given.

    Raises ManifestError for the first object that the server rejects.
    """
    for one in manifests:
        try:
            await _create(client, one)
            if one.kind is CUSTOM_RESOURCE_DEFINITION:
                await _established(client, one)
        except ApiError as error:
            raise ManifestError(f"{one.where}: {one.name}: {error.message}") from error


async def _create(client: Client, manifest: Manifest) -> None:
    kind, document = manifest.kind, manifest.document
    metadata = document["metadata"]
    name, namespace = metadata.get("name"), metadata.get("namespace")
    try:
        created = await client.create(kind, document)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        created = await client.patch(kind, name, document, namespace, type=PatchType.MERGE)
    if kind.status and document.get("status"):
        status, of = {"status": document["status"]}, created.metadata
        try:
            await client.patch(kind, of.name, status, of.namespace, type=PatchType.MERGE, subresource="status")
        except ApiError as error:
            if error.reason != "NotFound" or not metadata.get("ownerReferences"):
                raise
            raise ManifestError(f"{manifest.where}: {manifest.name}: {_OWNERLESS}") from error


async def _established(client: Client, manifest: Manifest) -> None:
    """Wait until the server serves a newly defined kind."""
    deadline = asyncio.get_running_loop().time() + _ESTABLISHED_SECONDS
    while True:
        definition = await client.get(manifest.kind, manifest.document["metadata"]["name"])
        conditions = {each.type: each for each in (definition.status.conditions if definition.status else None) or ()}
        established, accepted = conditions.get("Established"), conditions.get("NamesAccepted")
        if established is not None and established.status == "True":
            return
        if asyncio.get_running_loop().time() >= deadline:
            why = f": {accepted.message}" if accepted is not None and accepted.status != "True" else ""
            raise ManifestError(f"{manifest.where}: {manifest.name}: not served after {_ESTABLISHED_SECONDS:g} s{why}")
        await asyncio.sleep(_POLL_SECONDS)


def _manifest(document: dict[str, Any], where: str, kinds: Mapping[tuple[str, str], Kind]) -> Manifest:
    api_version, name = document["apiVersion"], document["kind"]
    kind = kinds.get((api_version, name))
    if kind is None:
        versions = [version for version, known in kinds if known == name]
        hint = f"; {name} is served in {' and '.join(versions)}" if versions else ""
        raise ManifestError(f"{where}: there is no kind {name} in {api_version}{hint}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise ManifestError(f"{where}: {name}: metadata.name is missing")
    return Manifest(kind, document, where)


def _defined(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], Kind]]:
    """The kinds defined by the documents. The server validates the definitions later."""
    for document in documents:
        if _KIND_OF.get((document["apiVersion"], document["kind"])) is not CUSTOM_RESOURCE_DEFINITION:
            continue
        try:
            definition = convert(CUSTOM_RESOURCE_DEFINITION.type, document).spec
        except UndecodableObject:
            continue
        for version in definition.versions:
            kind = Kind(
                group=definition.group,
                version=version.name,
                kind=definition.names.kind,
                plural=definition.names.plural,
                singular=definition.names.singular or definition.names.plural,
                namespaced=definition.scope == "Namespaced",
                model="",
                status=version.subresources is not None and version.subresources.status is not None,
            )
            yield (kind.api_version, kind.kind), kind
