"""docs/insight.md shows the answers that the commands really give, names all commands, and documents their JSON."""

import re
from pathlib import Path

import pytest
from test_questions import CASES, sections

from bayplan.answers.insight.question_list import LISTED

PAGE = Path(__file__).parents[2] / "docs/insight.md"
EXAMPLE = re.compile(r"\(\.\./tests/insight/questions/([\w.-]+\.txt)\)\)\n\n```console\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE.read_text())


@pytest.mark.parametrize(("case", "shown"), EXAMPLES, ids=[case for case, _ in EXAMPLES])
def test_example_is_the_answer_of_its_case(case, shown):
    _, parts = sections((CASES[0].parent / case).read_text())

    assert shown in [f"{title}\n{content.rstrip()}\n" for title, content in parts if title.startswith("$ ")]


def test_page_has_examples():
    assert len(EXAMPLES) >= 10


def test_page_names_all_questions():
    asked = {name for name, listed in LISTED.items() if listed.summary}

    assert {*asked, "snapshot"} <= set(re.findall(r"bayplan ([\w-]+)", PAGE.read_text()))


def test_page_lists_all_cases():
    for case in CASES:
        header, parts = sections(case.read_text())
        thread, _, question = header.removeprefix("# ").replace("\n# ", " ").strip().partition(": ")
        commands = dict.fromkeys(title.split()[2] for title, _ in parts if title.startswith("$ "))
        path = f"../tests/insight/questions/{case.name}"
        row = f"| [{thread}]({path}) | {question} | {', '.join(commands)} |"
        assert row in PAGE.read_text(), f"docs/insight.md lacks the row {row}"
