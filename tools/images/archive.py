"""An image as an archive of the Open Container Initiative: its digest, and the files of its layers.

Nothing of an image is run or unpacked to read it.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path, PurePosixPath
from typing import Any

from tools.problems import Problem

REVISION = "org.opencontainers.image.revision"
"""The label with the commit"""
REMOVED = ".wh."
"""How a layer names what it removes"""
OPAQUE = ".wh..wh..opq"
"""How a layer names a folder of which it removes all that other layers have"""


@dataclass(frozen=True)
class Image:
    """What an archive says of its image."""

    digest: str
    """of the manifest, as a registry names the image"""
    configuration: Mapping[str, Any]
    layers: Sequence[Mapping[str, int]]
    """path -> bytes, of the files that each layer brings"""
    kept: Mapping[str, bytes]
    """path -> content, of the files that were asked for"""

    @property
    def revision(self) -> str | None:
        """Which commit it was built of, if it says that."""
        labels = self.configuration.get("config", {}).get("Labels") or {}
        return labels.get(REVISION)

    def size_over(self, folder: str) -> int:
        """Return the bytes of the files that the layers bring, from the first one that has a folder."""
        own = dropwhile(lambda layer: not any(path.startswith(f"{folder}/") for path in layer), self.layers)
        return sum(sum(layer.values()) for layer in own)


def wanted(path: str) -> bool:
    """Tell whether a file names a package: of Python, or of Debian; or which Python runs."""
    return path.endswith((".dist-info/METADATA", "/pyvenv.cfg")) or path == "var/lib/dpkg/status"


def read_image(archive: Path) -> Image:
    """Return the image of an archive."""
    try:
        with tarfile.open(archive) as tar:
            blobs = {member.name: member for member in tar if member.isfile()}
            index = json.loads(_content(tar, blobs, "index.json"))
            digest = index["manifests"][0]["digest"]
            manifest = json.loads(_content(tar, blobs, _place(digest)))
            configuration = json.loads(_content(tar, blobs, _place(manifest["config"]["digest"])))
            kept: dict[str, bytes] = {}
            layers = [_apply(_content(tar, blobs, _place(each["digest"])), kept) for each in manifest["layers"]]
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError) as error:
        raise Problem(f"{archive} is no image in the layout of OCI: {' '.join(str(error).split())}") from None
    return Image(digest, configuration, layers, kept)


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"


def _content(tar: tarfile.TarFile, blobs: Mapping[str, tarfile.TarInfo], name: str) -> bytes:
    file = tar.extractfile(blobs[name])
    assert file is not None, "only files are listed"
    return file.read()


def _apply(layer: bytes, kept: dict[str, bytes]) -> dict[str, int]:
    """Follow a layer: what it removes, and what it brings. Return how large the latter is."""
    brought: dict[str, int] = {}
    for path, content, size in _files(layer):
        place = PurePosixPath(path)
        if place.name == OPAQUE:
            _remove(str(place.parent), kept)
        elif place.name.startswith(REMOVED):
            _remove(str(place.with_name(place.name.removeprefix(REMOVED))), kept)
        else:
            brought[path] = size
            kept.pop(path, None)
            if content is not None:
                kept[path] = content
    return brought


def _files(layer: bytes) -> Iterator[tuple[str, bytes | None, int]]:
    stream = io.BytesIO(layer)
    raw = gzip.GzipFile(fileobj=stream) if layer[:2] == b"\x1f\x8b" else stream
    with tarfile.open(fileobj=raw, mode="r|") as tar:
        for member in tar:
            if member.isfile():
                path = member.name.removeprefix("./").lstrip("/")
                file = tar.extractfile(member) if wanted(path) else None
                yield path, file.read() if file else None, member.size


def _remove(path: str, kept: dict[str, bytes]) -> None:
    for known in [known for known in kept if known == path or known.startswith(f"{path}/")]:
        del kept[known]
