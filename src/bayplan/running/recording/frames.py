"""Frames: what a segment consists of. Each has entries, its number, the run that it belongs to, and a checksum.

So a reader can say of each frame whether it follows the one before: files of two runs may have been joined, and frames
may be missing or there twice. Frames of version 1 of the format have no number and no run.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from bayplan.foundations.bounded_files import Allowance, UnusableFileError, inflated
from bayplan.running.recording.entries import AnyEntry, Checkpoint, RecordedEntry, decode_entries, encode_entries

RUN_BYTES = 8
"""The bytes of a run's id."""
_HEAD = struct.Struct("<II")
"""The length of what follows, and its CRC-32."""
_PLACE = struct.Struct(f"<{RUN_BYTES}sI")
"""The id of the run, and the number of the frame in it, from 1."""
_LARGEST = 1 << 30
"""More bytes than a frame has."""


class RecordingError(Exception):
    """A recording that can't be used. The message is one line for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class FrameEncoder:
    """Makes the frames of a run, one after the other. `run`: its id, in hexadecimal."""

    def __init__(self, run: str) -> None:
        self._run = bytes.fromhex(run)
        self._number = 0

    def encode(self, entries: list[RecordedEntry]) -> bytes:
        """The next frame."""
        self._number += 1
        content = _PLACE.pack(self._run, self._number) + zlib.compress(encode_entries(entries), 1)
        return _HEAD.pack(len(content), zlib.crc32(content)) + content


class FrameReader:
    """Reads the segments of a run, in order. `run`: its id; "" for version 1 of the format."""

    def __init__(self, run: str) -> None:
        self._run = bytes.fromhex(run)
        self._number = 0
        """The number of the last frame; 0 before the first one."""

    def read(self, place: str, data: bytes, *, last: bool) -> Iterator[AnyEntry]:
        """The entries of a segment. `place`: its name, for messages. `last`: whether no segment follows.

        Raises RecordingError at the first frame that is damaged, or doesn't follow. The last frame may be cut.
        """
        position, count = 0, 0
        while position < len(data):
            count += 1
            if position + _HEAD.size > len(data):
                return
            where = f"frame {count}, at byte {position}"
            length, checksum = _HEAD.unpack_from(data, position)
            content = data[position + _HEAD.size : position + _HEAD.size + length]
            if len(content) < length:
                if last and length < _LARGEST:
                    return
                raise RecordingError(f"{place} is damaged in {where}: it is cut")
            if zlib.crc32(content) != checksum:
                raise RecordingError(
                    f"{place} is damaged in {where}: its checksum is wrong; what is before it can be replayed"
                )
            try:
                entries = self._entries(place, where, content)
            except (zlib.error, msgspec.MsgspecError, struct.error, ValueError, RecursionError) as error:
                raise RecordingError(f"{place} is damaged in {where}: {error}") from None
            except UnusableFileError as error:
                raise RecordingError(str(error)) from None
            yield from entries
            position += _HEAD.size + length

    def _entries(self, place: str, where: str, content: bytes) -> list[AnyEntry]:
        if not self._run:
            return _entries_of(place, content)
        run, number = _PLACE.unpack_from(content)
        if run != self._run:
            raise RecordingError(
                f"{place} has a frame of another recording ({where}): files of two recordings were joined or mixed; "
                "keep each run in a folder of its own"
            )
        before, self._number = self._number, number
        if before and number <= before:
            raise RecordingError(
                f"{place}: frame {number} of the recording comes after frame {before} ({where}): frames are there "
                "twice, or in another order"
            )
        entries = _entries_of(place, content[_PLACE.size :])
        begins = not before and entries and isinstance(entries[0], Checkpoint)
        if number != before + 1 and not begins:
            missing = f"frame {before + 1} is" if number == before + 2 else f"frames {before + 1} to {number - 1} are"
            raise RecordingError(
                f"{place}: {missing} missing before frame {number} of the recording ({where}): a part was left out"
            )
        return entries


def _entries_of(place: str, data: bytes) -> list[AnyEntry]:
    return decode_entries(inflated(data, Allowance(place, len(data))))
