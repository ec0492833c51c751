"""Questions from the threads of users, answered on the command line.

Each file in `questions/` has the thread in its header, the files of a small cluster, and commands with their answers.
Run with BAYPLAN_WRITE_ANSWERS=1 to write the present answers into the files, then read the difference.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.faces.cli import main

CASES = sorted(Path(__file__).with_name("questions").glob("*.txt"))
SECTION = re.compile(r"^--- (.+)\n", re.MULTILINE)


def sections(text):
    """The header, and each title with its text."""
    header, *parts = SECTION.split(text)
    return header, list(zip(parts[::2], parts[1::2], strict=True))


def answer(command):
    program, *arguments = shlex.split(command)
    assert program == "bayplan"
    result = CliRunner().invoke(main, arguments, prog_name=program)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    status = f"exit status {result.exit_code}\n" if result.exit_code else ""
    return f"{result.stderr}{result.stdout}{status}"


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_question_has_its_answer(case, tmp_path, monkeypatch):
    text = case.read_text()
    header, parts = sections(text)
    assert re.match(r"# [\w.-]+/[\w.-]+#\d+: ", header), "the header names the thread"
    monkeypatch.chdir(tmp_path)
    for title, content in parts:
        if not title.startswith("$ "):
            path = Path(title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    answers = [
        (title, answer(title.removeprefix("$ ")) if title.startswith("$ ") else content) for title, content in parts
    ]
    written = header + "\n".join(f"--- {title}\n{content.rstrip()}\n" for title, content in answers)
    if os.environ.get("BAYPLAN_WRITE_ANSWERS"):
        case.write_text(written)
    else:
        assert written == text


def test_there_are_questions():
    assert len(CASES) >= 22
