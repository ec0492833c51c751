"""Reads the manifests that commands are given, and says what a file is that has none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayplan.faces.cli.insight.cluster_options import AskedCluster
from bayplan.faces.cli.insight.messages import fail, warn
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.snapshots import archive, exports, lacking
    from bayplan.core import versions
    from bayplan.core.api import kinds
    from bayplan.foundations import bounded_files, manifest_files

if TYPE_CHECKING:
    from bayplan.core.api.labels import LabelSelector


_STANDARD_INPUT = "standard input"


def warn_of_lacking_kinds(asked: AskedCluster, documents: list[dict[str, Any]]) -> None:
    """Say which kinds a dump lacks that the manifests need. A saved snapshot has what its cluster had."""
    known = {gap.kind for gap in asked.snapshot.gaps}
    if asked.source.path is not None and not archive.is_archive(asked.source.path):
        warn(str(gap) for gap in lacking.lacking_for(asked.snapshot.documents, documents) if gap.kind not in known)


def documents_in(asked: AskedCluster, files: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Read manifests, those that `--selector` chooses. Without a namespace they are in that of `--namespace` or the
    context.
    """
    if "-" in files and asked.source.path == "-":
        fail("--from - and --filename -: only one of them can read standard input")
    known = asked.gates.enabled("CompositePodGroup")
    for document in manifests_in(files, asked.in_namespace, asked.selector):
        if document["kind"] == "CompositePodGroup" and not known:
            since = versions.of_composites()
            version = asked.gates.version
            warn([f"Kubernetes {version} doesn't have CompositePodGroups: pass --emulated-version {since}"])
            known = True
        yield document


def manifests_in(
    files: tuple[str, ...], namespace: str, selector: LabelSelector | None = None
) -> Iterator[dict[str, Any]]:
    """Read manifests, those that a selector chooses. Bad input ends the process with one line."""
    empty = True
    try:
        for name in files:
            for document, where in _read(name):
                empty = False
                given = document.get("metadata") or {}
                if not isinstance(given, dict):
                    fail(f"{where}: {document['kind']}: metadata: expected an object, not {given!r:.40}")
                metadata = {"namespace": namespace, **given}
                if selector is not None and not selector.matches(_labels(metadata)):
                    continue
                namespaced = {**document, "metadata": metadata} if _is_namespaced(document) else document
                yield manifest_files.PlacedDocument(namespaced, where)
    except manifest_files.ManifestError as error:
        fail(str(error))
    if empty:
        fail(f"there are no objects in {', '.join(files)}")


def _labels(metadata: dict[str, Any]) -> dict[str, str]:
    labels = metadata.get("labels")
    return labels if isinstance(labels, dict) else {}


def _read(name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a file or a folder, each with its place."""
    if name == "-":
        if sys.stdin is None:
            fail("standard input is closed")
        content = bounded_files.read_rest(_STANDARD_INPUT, sys.stdin.buffer, manifest_files.MOST_BYTES)
        text = manifest_files.text_of(_STANDARD_INPUT, content)
        for line, document in manifest_files.yaml_documents(_STANDARD_INPUT, text):
            if document is not None:
                yield from manifest_files.objects_in(document, f"{_STANDARD_INPUT} (line {line})")
        return
    if name.startswith(("http://", "https://")):
        fail(f"{name}: addresses aren't read: pass a file, or - and the manifests on standard input")
    for path in manifest_files.files_in(Path(name)):
        try:
            yield from manifest_files.read_documents(path)
        except manifest_files.ManifestError:
            _fail_for_other_tools(path)
            raise


def _fail_for_other_tools(path: Path) -> None:
    """Fail for a file that has the state of a cluster, and for an output for people."""
    try:
        content = bounded_files.read_whole(path, manifest_files.MOST_BYTES) if path.is_file() else b""
    except (OSError, bounded_files.UnusableFileError):
        return
    if what := exports.named(content):
        fail(f"{path} is {what}, which has the state of a cluster: pass it with --from {path}. -f takes manifests")
    if what := exports.text_for_people(manifest_files.in_utf_8(content)):
        fail(f"{path} is {what}")


def _is_namespaced(document: dict[str, Any]) -> bool:

    header = (document["apiVersion"], document["kind"])
    return any(
        kind.namespaced and (kind.api_version, kind.kind) == header for kind in (*kinds.KINDS, *kinds.VERSIONED_KINDS)
    )
