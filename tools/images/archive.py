"""An image as an archive of the Open Container Initiative: its digest, and the files of its layers.

Nothing of an image is run or unpacked to read it.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tools.problems import Problem

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
    sizes: Mapping[str, int]
    """path -> bytes, of all files"""
    kept: Mapping[str, bytes]
    """path -> content, of the files that were asked for"""

    def size_under(self, folder: str) -> int:
        """Return the bytes of the files in a folder."""
        return sum(size for path, size in self.sizes.items() if path.startswith(f"{folder}/"))


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
            sizes: dict[str, int] = {}
            kept: dict[str, bytes] = {}
            for layer in manifest["layers"]:
                _apply(_content(tar, blobs, _place(layer["digest"])), sizes, kept)
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError) as error:
        raise Problem(f"{archive} is no image in the layout of OCI: {' '.join(str(error).split())}") from None
    return Image(digest, configuration, sizes, kept)


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/', 1)}"


def _content(tar: tarfile.TarFile, blobs: Mapping[str, tarfile.TarInfo], name: str) -> bytes:
    file = tar.extractfile(blobs[name])
    assert file is not None, "only files are listed"
    return file.read()


def _apply(layer: bytes, sizes: dict[str, int], kept: dict[str, bytes]) -> None:
    """Follow a layer: what it adds, and what it removes."""
    for path, content, size in _files(layer):
        place = PurePosixPath(path)
        if place.name == OPAQUE:
            _remove(str(place.parent), sizes, kept)
        elif place.name.startswith(REMOVED):
            _remove(str(place.with_name(place.name.removeprefix(REMOVED))), sizes, kept)
        else:
            sizes[path] = size
            kept.pop(path, None)
            if content is not None:
                kept[path] = content


def _files(layer: bytes) -> Iterator[tuple[str, bytes | None, int]]:
    stream = io.BytesIO(layer)
    raw = gzip.GzipFile(fileobj=stream) if layer[:2] == b"\x1f\x8b" else stream
    with tarfile.open(fileobj=raw, mode="r|") as tar:
        for member in tar:
            if member.isfile():
                path = member.name.removeprefix("./").lstrip("/")
                file = tar.extractfile(member) if wanted(path) else None
                yield path, file.read() if file else None, member.size


def _remove(path: str, sizes: dict[str, int], kept: dict[str, bytes]) -> None:
    for known in [known for known in sizes if known == path or known.startswith(f"{path}/")]:
        del sizes[known]
        kept.pop(known, None)
