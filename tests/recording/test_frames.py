"""Frames follow each other: what was joined, mixed, left out, doubled or damaged is named in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.running.recording.entries import Checkpoint, Popped
from bayplan.running.recording.frames import FrameEncoder, FrameReader, RecordingError

RUN, OTHER = "0123456789abcdef", "fedcba9876543210"
NO_RANDOM = (3, (0,) * 625, None)
CHECKPOINT = Checkpoint([], 0.0, 7, 0, (), (), (), (), (), (), NO_RANDOM, 0)


def frames(count, run=RUN, checkpoints=()):
    encoder = FrameEncoder(run)
    return [
        encoder.encode([*([CHECKPOINT] if number in checkpoints else []), Popped([], float(number), "")])
        for number in range(1, count + 1)
    ]


def read(*segments, run=RUN):
    """The times of the entries, and the error of a reader."""
    reader, times = FrameReader(run), []
    try:
        for number, each in enumerate(segments, start=1):
            data = b"".join(each)
            for entry in reader.read(f"segment {number}", data, last=number == len(segments)):
                times += [entry.at] if isinstance(entry, Popped) else []
    except RecordingError as error:
        return times, str(error)
    return times, ""


F, MORE, OTHERS = frames(5), frames(6, checkpoints=(4,)), frames(3, OTHER)
CASES = {
    "whole": ([F], 5, ""),
    "in segments": ([F[:2], F[2:]], 5, ""),
    "older segments deleted": ([MORE[3:]], 3, ""),
    "frame left out": (
        [[*F[:2], *F[3:]]],
        2,
        "segment 1: frame 3 is missing before frame 4 of the recording (frame 3, at",
    ),
    "frames left out": ([[F[0], F[4]]], 1, "frames 2 to 4 are missing before frame 5"),
    "first frame left out": ([F[1:]], 0, "frame 1 is missing before frame 2"),
    "segment left out": ([F[:2], F[4:]], 2, "segment 2: frames 3 to 4 are missing before frame 5"),
    "segment left out before a checkpoint": ([MORE[:2], MORE[3:]], 2, "frame 3 is missing before frame 4"),
    "joined with another": ([[*F, *OTHERS]], 5, "segment 1 has a frame of another recording (frame 6, at byte"),
    "segment of another": (
        [F, OTHERS],
        5,
        "segment 2 has a frame of another recording (frame 1, at byte 0): files of two",
    ),
    "all of another": ([OTHERS], 0, "has a frame of another recording"),
    "joined with itself": ([[*F, *F]], 5, "frame 1 of the recording comes after frame 5 (frame 6, at byte"),
    "frame twice": ([[*F[:3], F[2]]], 3, "frame 3 of the recording comes after frame 3"),
    "another order": ([[F[0], F[2], F[1]]], 1, "frame 2 is missing before frame 3"),
    "cut at the end": ([[*F[:4], F[4][:-1]]], 4, ""),
    "cut in the head": ([[*F[:4], F[4][:5]]], 4, ""),
    "cut before another segment": ([[F[0], F[1][:-1]], F[2:]], 1, "segment 1 is damaged in frame 2, at byte"),
    "damaged": ([[F[0], F[1][:-1] + b"\0", F[2]]], 1, "damaged in frame 2"),
}


@pytest.mark.parametrize(("segments", "count", "problem"), CASES.values(), ids=CASES)
def test_what_does_not_follow_is_named(segments, count, problem):
    times, found = read(*segments)
    first = 4 if segments == [MORE[3:]] else 1
    assert times == [float(number) for number in range(first, first + count)]
    assert problem in found
    assert bool(found) == bool(problem)
    assert "\n" not in found


@given(st.lists(st.integers(0, 4), max_size=8))
def test_only_the_frames_as_they_were_written_are_read(order):
    """Whatever frames are chosen, in whatever order: what is read is a beginning of the recording."""
    times, problem = read([F[index] for index in order])
    assert times == [float(number) for number in range(1, len(times) + 1)]
    assert (problem == "") is (order == [*range(len(order))])


@given(st.integers(0, len(b"".join(F)) - 1), st.integers(0, 7))
def test_a_changed_byte_is_named_or_looks_like_a_cut(position, bit):
    data = bytearray(b"".join(F))
    data[position] ^= 1 << bit
    times, problem = read([bytes(data)])
    assert times == [float(number) for number in range(1, len(times) + 1)]
    assert problem or len(times) < 5
