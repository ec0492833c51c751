"""docs/versions.md says what `kubernetes.json` has. BAYPLAN_WRITE_ANSWERS=1 writes its tables."""

import os
import re
from pathlib import Path

import pytest

from bayplan.core.versions import CHANGES, GATES, VERSIONS
from bayplan.core.versions.table import ChangeState

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/versions.md"
UPSTREAM = "https://github.com/kubernetes/kubernetes/pull"
HOW = {"recorded": "recorded", "unit tests": "upstream's unit tests", "read": "read only"}


def state(change):
    text = f"**{change.state}**" if change.state is not ChangeState.FOLLOWED else "followed"
    verified = f", {HOW[change.verified]}" if change.verified else ""
    return f"{text}{verified}{f': {change.why}' if change.why else ''}"


def shown(change):
    if not change.test:
        return ""
    path, _, name = change.test.partition("::")
    return f"[`{name or Path(path).name}`](../{path})"


def links(numbers):
    return ", ".join(f"[#{number}]({UPSTREAM}/{number})" for number in numbers)


def changes_table():
    yield "| change | pull requests | affects | effect | state | test |"
    yield "|---|---|---|---|---|---|"
    for change in sorted(CHANGES.values(), key=lambda each: (list(ChangeState).index(each.state), each.name)):
        requests = links(change.pull_requests)
        cells = (change.name, requests, ", ".join(change.affects), change.effect, state(change), shown(change))
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")


def gates_table():
    yield f"| gate | {' | '.join(VERSIONS)} | switches | pull requests | in Bayplan |"
    yield f"|---|{'---|' * len(VERSIONS)}---|---|---|"
    for gate in sorted(GATES.values(), key=lambda each: each.name):
        stages = [gate.stages.get(each, "") for each in VERSIONS]
        locked = all(each.endswith("locked") for each in gate.stages.values())
        reasons = {each: gate.fixed_in(each) for each in VERSIONS if stages[VERSIONS.index(each)]}
        fixed = "; ".join(dict.fromkeys(reasons.values()))
        if "" in reasons.values() and fixed:
            fixed = "; ".join(f"{each}: {why or 'can be switched'}" for each, why in reasons.items())
        here = fixed or ("always on" if locked else "can be switched")
        cells = (gate.name, *stages, gate.switches, links(gate.pull_requests), here)
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")


TABLES = {"changes": changes_table, "gates": gates_table}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_tables_of_the_data(name):
    text = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    table = "\n".join(TABLES[name]()) + "\n"
    before, _, rest = text.partition(begin)
    if os.environ.get("BAYPLAN_WRITE_ANSWERS"):
        text = f"{before}{begin}{table}{end}{rest.partition(end)[2]}"
        PAGE.write_text(text, encoding="utf-8")
    assert f"{begin}{table}{end}" in text


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_is_shown_by_a_test_or_says_why_not(change):
    if change.state is not ChangeState.FOLLOWED:
        assert change.why
        return
    path, _, name = change.test.partition("::")
    assert not name or re.search(rf"^ *(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
