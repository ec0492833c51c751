import pytest

from bayplan.core.api import durations


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-0.5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"),
        (179 * 60, "179m"), (3 * 3600 + 60, "3h1m"), (8 * 3600, "8h"), (47 * 3600, "47h"), (48 * 3600, "2d"),
        (50 * 3600, "2d2h"), (200 * 3600, "8d"), (800 * 86400, "2y70d"), (3000 * 86400, "8y"),
    ],
)  # fmt: skip
def test_durations_for_people_have_two_units_at_most(seconds, text):
    assert durations.human(seconds) == text
