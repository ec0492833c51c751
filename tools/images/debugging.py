"""Cuts what only debuggers read from compiled libraries, for an image.

Some wheels have libraries with the debugging information of their compiler, which is most of their size. The kernel and
the dynamic linker load segments; sections, such as that information, come after them. It runs in the build of an image,
which has no other file of this folder.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_IDENTITY = b"\x7fELF\x02\x01"
"""How a library of 64 bits begins whose lowest byte is the first one"""
_SEGMENTS = struct.Struct("<Q14xHH")
"""Where the table of segments is, at byte 32; then the size of an entry, and how many it has"""
_SEGMENT = struct.Struct("<8xQ16xQ")
"""Where a segment is in the file, and how many bytes of it"""


def without_sections(library: bytes) -> bytes:
    """Return a library without its sections, if one of them is debugging information; else as it is."""
    if not library.startswith(_IDENTITY) or b".debug_info" not in library:
        return library
    table, size, count = _SEGMENTS.unpack_from(library, 32)
    ends = [sum(_SEGMENT.unpack_from(library, table + size * number)) for number in range(count)]
    kept = bytearray(library[: max(ends, default=len(library))])
    kept[40:48] = bytes(8)  # where the table of sections is
    kept[60:64] = bytes(4)  # how many it has, and which one has their names
    return bytes(kept)


def main() -> None:
    """Cut each library of this environment."""
    for file in sorted(Path(sys.prefix).rglob("*.so")):
        library = file.read_bytes()
        cut = without_sections(library)
        if len(cut) < len(library):
            file.write_bytes(cut)


if __name__ == "__main__":
    main()
