"""docs/history.md: its commands run, its output is real, its columns are those of the format."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
from pathlib import Path

import duckdb
import pytest
import yaml
from click.testing import CliRunner
from tests.history.audit_logs import lines, story
from tests.history.metrics_server import small_server, usual_story

from bayplan.answers.backtest.sample import write_sample
from bayplan.answers.history.format import EVENTS, Row, document_schema, event_schema, import_pyarrow
from bayplan.answers.history.sources.trace import _COLUMNS
from bayplan.answers.history.sources.versions import KEPT
from bayplan.faces.cli import main
from bayplan.faces.cli.record import record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
QUESTIONS = "## Questions that people ask"
PROMETHEUS = "http://prometheus:9090"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def sample_week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "week"
    write_sample(folder)
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page names."""
    (tmp_path / "audit.log").write_bytes(lines(story()[4:]))
    (tmp_path / "audit-1.log.gz").write_bytes(gzip.compress(lines(story()[:5])))
    (tmp_path / "trace.csv").write_text(blocks("csv")[0], encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_run(place: Path) -> None:
    printed = ""
    questions = PAGE[PAGE.index(QUESTIONS) : PAGE.index("## The format")]
    with small_server(usual_story().samples) as url:
        commands = [line for block in blocks("sh") for line in block.splitlines() if line not in questions]
        for command in commands:
            assert command.startswith("bayplan ")
            words = [word.replace(PROMETHEUS, url) for word in shlex.split(command, comments=True)[1:]]
            result = CliRunner().invoke(main, words, catch_exceptions=False)
            assert result.exit_code == 0, result.output
            printed += result.output
    assert blocks("text")[0] in printed
    assert {path.name for path in place.iterdir()} >= {"from-audit", "from-metrics", "from-trace", "made-up"}


@pytest.mark.timeout(300)
def test_each_question_has_the_answer_of_the_page(place: Path, sample_week: Path) -> None:
    section = PAGE[PAGE.index(QUESTIONS) : PAGE.index("## The format")]
    found = re.findall(r"^```(sh|text)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    printed: list[str] = []
    (place / "sample-week").symlink_to(sample_week)
    saving = next(line for line in PAGE.splitlines() if line.startswith("bayplan snapshot now.bayplan"))
    assert CliRunner().invoke(main, shlex.split(saving, comments=True)[1:]).exit_code == 0
    for language, block in found:
        if language == "sh":
            result = CliRunner().invoke(main, shlex.split(block)[1:], catch_exceptions=False)
            assert result.exit_code == 0, result.output
            printed = [line.rstrip() for line in result.stdout.splitlines()]
        else:
            assert [line for line in block.splitlines() if line not in printed] == []
    assert len(found) == 17
    threads = ("1468", "9783", "3822", "141", "711", "10168", "15614")
    assert all(f" {number}**" in section for number in threads)


def test_duckdb_polars_and_python_read_the_sample(
    place: Path, sample_week: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "sample-week").symlink_to(sample_week)
    assert len(duckdb.sql(blocks("sql")[0]).fetchall()) == 3
    for block in blocks("python"):
        exec(compile(block, "docs/history.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "pod_arrived" in printed
    assert "PodArrived" in printed


def test_the_columns_are_those_of_the_format() -> None:
    pa = import_pyarrow()
    table = PAGE[PAGE.index("The columns of `events-*.parquet`") :]
    documented = [
        name for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert documented == event_schema(pa).names == list(Row.__struct_fields__)
    events = next(row for row in table.splitlines() if row.startswith("| `event` "))
    assert tuple(re.findall(r"`(\w+)`", events))[1:] == EVENTS
    assert all(f"`{name}`" in table for name in document_schema(pa).names)
    traces = PAGE[PAGE.index("## Traces") : PAGE.index("## From a snapshot alone")]
    assert set(_COLUMNS) <= set(re.findall(r"`(\w+)`", traces))


def test_the_audit_policy_names_resources_that_are_imported() -> None:
    (policy,) = (yaml.safe_load(block) for block in blocks("yaml"))
    for rule in policy["rules"][:-1]:
        for resources in rule["resources"]:
            for resource in resources["resources"]:
                assert (resources["group"], resource.partition("/")[0]) in KEPT


def test_the_deployed_recorder_is_what_the_command_prints() -> None:
    shipped = (ROOT / "deploy" / "recorder.yaml").read_text(encoding="utf-8")
    command = ["manifests", "--recorder", "--image", "registry.example/bayplan:0.2.0"]
    assert shipped == CliRunner().invoke(main, command).stdout, f"bayplan {' '.join(command)} > deploy/recorder.yaml"
    documents = {each["kind"]: each for each in yaml.safe_load_all(shipped)}
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    name, folder, *options = container["args"]
    assert name == "record"
    record.make_context("record", [folder, *options])
    assert next(mount["mountPath"] for mount in container["volumeMounts"]) == str(Path(folder).parent)
    assert documents["ClusterRoleBinding"]["subjects"][0]["name"] == pod["serviceAccountName"]
    assert {verb for rule in documents["ClusterRole"]["rules"] for verb in rule["verbs"]} == {"list", "watch"}
