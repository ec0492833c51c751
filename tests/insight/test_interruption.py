"""Ctrl-C ends a question with what is known so far; tables have as many rows as the user wants."""

import json
import os
import signal

import pytest
from bayplan_documents import document
from click.testing import CliRunner

from bayplan.answers.insight.answers import INTERRUPTED, Stopped
from bayplan.faces.cli import main
from bayplan.faces.cli.insight.progress import interruptible
from bayplan.insight import Insight, Snapshot


def pod(name, cpu="1", labels=()):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    made = document("Pod", name, spec={"containers": [container]})
    made["metadata"]["labels"] = dict(labels)
    return made


NODE = document("Node", "a", namespace="", status={"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "110"}})
PODS = [pod(f"web-{number}", cpu=f"{number + 5}", labels={"odd": str(number % 2)}) for number in range(4)]
OBJECTS = [NODE, *PODS]


def stopping_after(steps):
    """A progress callback that stops a question after some steps."""
    seen = []

    def progress(text):
        seen.append(text)
        if len(seen) > steps:
            raise Stopped

    return progress


def test_interrupted_explanation_of_all_pods_has_the_first_causes():
    answer = Insight(Snapshot.of(OBJECTS)).explain_all(progress=stopping_after(1))

    assert (answer.count, answer.interrupted, answer.to_dict()["interrupted"]) == (2, True, True)
    assert INTERRUPTED in answer.text()


def test_interrupted_fit_has_the_first_pods():
    answer = Insight(Snapshot.of([NODE])).fit([pod("x"), pod("y"), pod("z")])
    assert (len(answer.pods), answer.fits, answer.interrupted) == (3, True, False)

    answer = Insight(Snapshot.of([NODE])).fit([pod("x"), pod("y"), pod("z")], progress=stopping_after(1))
    assert [each.outcome for each in answer.pods] == ["placed", "placed"]
    assert not answer.fits
    assert INTERRUPTED in answer.text()


@pytest.mark.parametrize("ask", [lambda insight, **given: insight.explain("default/web-0", **given)])
def test_interrupted_search_for_changes_keeps_those_that_help(ask):
    complete = ask(Insight(Snapshot.of(OBJECTS)))
    answer = ask(Insight(Snapshot.of(OBJECTS)), progress=stopping_after(1))

    assert len(complete.help) > len(answer.help) == 1
    assert answer.nearest == complete.nearest
    assert INTERRUPTED in answer.text()


def test_interrupted_why_not_has_the_blockers():
    answer = Insight(Snapshot.of(OBJECTS)).why_not("default/web-0", "a", progress=stopping_after(0))

    assert (len(answer.blockers), answer.help, answer.interrupted) == (1, (), True)
    assert INTERRUPTED in answer.text()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    small = [pod(f"x-{number}", cpu="100m", labels={"odd": str(number % 2)}) for number in range(5)]
    (tmp_path / "more.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": small}))


def called(*arguments):
    return CliRunner().invoke(main, [*arguments, "--from", "cluster.json"])


@pytest.mark.parametrize(
    "command",
    [["explain", "--all-pending"], ["explain", "web-0"], ["why-not", "web-0", "a"], ["fit", "-f", "more.json"]],
    ids=" ".join,
)
def test_ctrl_c_prints_what_is_known_and_exits_with_130(files, monkeypatch, command):
    monkeypatch.setattr("bayplan.faces.cli.insight.answering.interruptible", PressedOnce)
    result = called(*command)

    assert result.exit_code == 130
    assert INTERRUPTED in result.stdout


@pytest.mark.parametrize("arguments", [["check", "more.json"]], ids=" ".join)
def test_ctrl_c_before_anything_is_known_exits_with_130(files, monkeypatch, arguments):
    monkeypatch.setattr("bayplan.faces.cli.insight.answering.interruptible", PressedOnce)
    result = called(*arguments)

    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.endswith("interrupted before anything was known\n")


class PressedOnce:
    """`interruptible`, with Ctrl-C pressed as soon as it listens."""

    def __init__(self, title):
        self._inner = interruptible(title)

    def __enter__(self):
        progress = self._inner.__enter__()
        os.kill(os.getpid(), signal.SIGINT)
        return progress

    def __exit__(self, *error):
        return self._inner.__exit__(*error)


def test_ctrl_c_while_the_cluster_is_read_exits_with_130(files, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Snapshot, "open", pressed)
    result = called("explain", "web-0")

    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.endswith("interrupted before anything was known\n")


@pytest.mark.parametrize(("limit", "rows", "more"), [("2", 2, True), ("0", 5, False), ("20", 5, False)])
def test_limit_is_the_number_of_rows(files, limit, rows, more):
    printed = called("fit", "-f", "more.json", "--limit", limit).stdout
    assert printed.count("default/x-") == rows
    assert ("and 3 more" in printed) is more
    printed = called("explain", "--all-pending", "--limit", limit).stdout
    assert printed.count("1 pod: ") + printed.count("4 pods: ") == 1


def test_limit_is_the_number_of_causes():
    tainted = [pod(f"gated-{number}") for number in range(3)]
    for number, each in enumerate(tainted):
        each["spec"]["schedulingGates"] = [{"name": f"example.com/gate-{number}"}]
    answer = Insight(Snapshot.of([NODE, *tainted])).explain_all(shown=2)

    assert answer.text().count("waiting for scheduling gates") == 2
    assert "\nand 1 more\n" in answer.text()
    assert len(answer.to_dict()["causes"]) == 3


def test_selector_chooses_pods(files):
    assert json.loads(called("explain", "--all-pending", "-l", "odd=1", "-o", "json").stdout)["pending"] == 2
    assert len(json.loads(called("fit", "-f", "more.json", "-l", "odd=1", "-o", "json").stdout)["pods"]) == 2


@pytest.mark.parametrize("command", [["explain", "web-0"], ["why-not", "web-0", "a"]], ids=" ".join)
def test_selector_and_the_name_of_a_pod_exclude_each_other(files, command):
    result = called(*command, "-l", "odd=1")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "--selector" in result.stderr
