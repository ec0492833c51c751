"""docs/when.md: its commands run on the files that it shows, and print what it shows.

Run with BAYPLAN_WRITE_ANSWERS=1 to write the present answers into the page, then read the difference.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.answers.insight.questions.starts import Known, StartTimes
from bayplan.answers.insight.questions.when import When
from bayplan.answers.insight.questions.when_pending import PendingStarts, PodStart
from bayplan.faces.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "when.md"
TEXT = PAGE.read_text(encoding="utf-8")
ANSWERED = re.compile(
    r"^```console\n\$ (bayplan when [^\n]* --from cluster\.yaml[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of the page, as it calls them."""
    monkeypatch.chdir(tmp_path)
    yaml = re.findall(r"`(\w+\.yaml)`:\n\n```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    csv = re.findall(r"`(\w+\.csv)`:\n\n```csv\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in (*yaml, *csv)] == ["cluster.yaml", "job.yaml", "durations.csv"]
    for name, content in (*yaml, *csv):
        (tmp_path / name).write_text(content)


def answer(command):
    result = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    status = f"exit status {result.exit_code}\n" if result.exit_code else ""
    return f"{result.stderr}{result.stdout}{status}"


def test_the_page_shows_what_its_commands_print(files):
    shown = ANSWERED.findall(TEXT)
    assert len(shown) == 4
    printed = {command: answer(command) for command, _ in shown}
    if os.environ.get("BAYPLAN_WRITE_ANSWERS"):
        written = ANSWERED.sub(lambda found: f"```console\n$ {found[1]}\n{printed[found[1]]}```", TEXT)
        PAGE.write_text(written, encoding="utf-8")
    else:
        assert dict(shown) == printed


def test_the_page_has_all_keys_of_the_answers():
    times, known = StartTimes(0.0, 0.0, 0.0), Known(1.0, 0, {})
    keys = {*When("", 1, times, times, 1, known).to_dict(), *PendingStarts((), 1, known).to_dict()}
    keys |= PodStart("", times, None, ()).to_dict().keys()
    table = TEXT.partition("## JSON")[2].partition("## Python")[0]
    assert keys <= set(re.findall(r"[\w]+", " ".join(re.findall(r"`([^`]+)`", table))))


def test_the_page_has_a_place_for_the_figures_and_the_plot():
    assert 0 < TEXT.index("<!-- truth -->") < TEXT.index("<!-- end of truth -->")
    assert (PAGE.parent / "images" / "when.svg").read_text(encoding="utf-8").startswith("<svg")
