"""docs/check.md: its blocks run on the files that it shows, and its table has all rules.

Run with BAYPLAN_WRITE_ANSWERS=1 to write the present answers into the page, then read the difference.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.support.commands import bayplan

from bayplan.answers.insight.checking.check import Check
from bayplan.answers.insight.checking.findings import Finding
from bayplan.answers.insight.checking.rules import RULES
from bayplan.insight import Snapshot

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "check.md"
TEXT = PAGE.read_text(encoding="utf-8")
ANSWERED = re.compile(r"^```console\n\$ (bayplan check [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?<=\| rule \| level \| what it finds \|\n\|---\|---\|---\|\n)(\|.*\n)*")
WRITES = bool(os.environ.get("BAYPLAN_WRITE_ANSWERS"))


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """The files of the page, as it calls them, and those that its commands name."""
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"`(\w+\.yaml)`:\n\n```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in shown] == ["cluster.yaml", "web.yaml"]
    for name, content in shown:
        (tmp_path / name).write_text(content)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "web.yaml").write_text(dict(shown)["web.yaml"])
    Snapshot.open("cluster.yaml").save("cluster.bayplan")


def printed(command):
    result = bayplan(*shlex.split(command)[1:], "--emulated-version", "1.36", status=None)
    return f"{result.stdout}exit status {result.exit_code}\n"


def test_the_page_shows_what_its_commands_print():
    shown = dict(ANSWERED.findall(TEXT))
    assert len(shown) == 1
    found = {command: printed(command) for command in shown}
    rows = "".join(f"| `{name}` | {rule.level} | {rule.text} |\n" for name, rule in RULES.items())
    if WRITES:
        text = ANSWERED.sub(lambda each: f"```console\n$ {each[1]}\n{found[each[1]]}```", TEXT)
        PAGE.write_text(TABLE.sub(rows, text), encoding="utf-8")
    else:
        assert shown == found
        assert TABLE.search(TEXT)[0] == rows


def test_commands_of_the_page_run():
    commands = [line.partition("#")[0] for block in blocks("sh") for line in block.splitlines()]
    checks = [each for each in commands if each.startswith("bayplan check")]
    assert len(checks) == 2
    for command in checks:
        bayplan(*shlex.split(command)[1:], status=1)
    assert Path("bayplan.sarif").exists()
    assert Path("bayplan.xml").exists()


def test_python_of_the_page_runs(capsys):
    (code,) = blocks("python")
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[0] == "error rollout-stuck deployment shop/web"


def test_page_has_all_keys_of_the_answer():
    finding = Finding("pending", "", "", "")
    keys = {*Check(findings=(), objects=0, pods=0, placed=0, version="").to_dict(), *finding.to_dict()}
    assert keys == set(re.findall(r'"(\w+)"', TEXT.partition("JSON is `")[2].partition("}`.")[0]))


def test_examples_of_pipelines_name_what_is_in_the_tree():
    workflow, hooks = (yaml.safe_load(each) for each in blocks("yaml")[-2:])
    step = workflow["jobs"]["check"]["steps"][1]
    action = ROOT / step["uses"].partition("@")[0].partition("bayplan/")[2] / "action.yml"
    assert set(step["with"]) <= set(yaml.safe_load(action.read_text())["inputs"])
    known = {each["id"] for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {each["id"] for each in hooks["repos"][0]["hooks"]} <= known
