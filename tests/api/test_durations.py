from __future__ import annotations

import pytest

from bayplan.api import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("15s", 15),
        ("1m30s", 90),
        ("10m0s", 600),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("-2s", -2),
        ("1h1us", 3600.000001),
    ],
)
def test_durations(text, seconds):
    assert durations.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "15", "15 parsecs", "1m 30s", "1d", "--1s", "+"])
def test_malformed_duration_error_gives_an_example(text):
    with pytest.raises(ValueError, match="such as 10s"):
        durations.parse(text)
