"""`bayplan sweep`: its table, its results, what it simulates again, and what can't be used."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from click.testing import CliRunner
from tests.backtest.histories import pool_node, record
from tests.simulation.timelines import OWNED
from tests.support.waiting import until

from bayplan.answers.simulation.happenings import PodArrives
from bayplan.answers.sweeps import workers
from bayplan.answers.sweeps.plan import grid, read_plan
from bayplan.answers.sweeps.sweep import ranked
from bayplan.core.config import load_configuration
from bayplan.faces.cli import main
from bayplan.foundations.file_replacement import PRIVATE
from bayplan.testing import make_pod

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """Two histories of four nodes and eight pods, the second with larger pods."""
    for name, cpu in (("small", "1"), ("large", "3")):
        pods = [PodArrives(60.0 + n, make_pod(f"web-{n}", cpu=cpu, memory="1Gi", owner=OWNED)) for n in range(8)]
        nodes = [pool_node(f"n{n}", zone="ab"[n % 2]) for n in range(4)]
        record(tmp_path / name, pods, seconds=600.0, nodes=nodes)
    return tmp_path


def write(folder, **plan):
    plan = {
        "histories": ["small", "large"],
        "objectives": ["empty_nodes_average", "largest_zone_share"],
        "candidates": {
            "set": {
                "NodeResourcesFit.scoringStrategy.type": ["LeastAllocated", "MostAllocated"],
                "NodeResourcesFit.weight": [1, 5],
            }
        },
    } | plan
    path = folder / "sweep.yaml"
    path.write_text(yaml.dump(plan))
    return path


def sweep(path, *arguments, status=0):
    done = CliRunner().invoke(main, ["sweep", str(path), "--to", str(path.parent / "runs"), *map(str, arguments)])
    assert done.exit_code == status, done.output
    return done.output


def test_all_combinations_are_simulated_once(folder):
    path = write(folder)
    answer = sweep(path, "--jobs", 1, "--best-config", folder / "best.yaml")
    assert "5 choices, 10 runs simulated now" in answer
    assert re.search(r"^NodeResourcesFit.scoringStrategy.type=LeastAllocated.* best", answer, re.MULTILINE)
    runs = pl.read_parquet(folder / "runs" / "runs.parquet")
    assert runs.height == 10
    assert runs["key"].n_unique() == 10
    assert set(runs["history"]) == {"small", "large"}
    assert runs.filter(pl.col("now"))["set.NodeResourcesFit.weight"].to_list() == [None, None]
    best = load_configuration(folder / "best.yaml")
    (fit,) = [each for each in best.profiles[0].pluginConfig if each.name == "NodeResourcesFit"]
    assert "LeastAllocated" in str(fit.args)  # packing leaves nodes empty, which is to be low here
    assert not re.search(r"^NodeResourcesFit.scoringStrategy.type=MostAllocated.* best", answer, re.MULTILINE)
    assert "5 choices, 0 runs simulated now" in sweep(path)


def test_what_a_run_depends_on_decides_whether_it_is_simulated_again(folder):
    prices = folder / "prices.yaml"
    prices.write_text("m5.xlarge: 0.2\n")
    path = write(folder, prices="prices.yaml", histories=["small"])
    assert "5 runs simulated now" in sweep(path, "--jobs", 1)
    prices.write_text("m5.xlarge: 0.4\n")
    assert "5 runs simulated now" in sweep(path, "--jobs", 1)
    (damaged, *_) = (folder / "runs" / "runs").iterdir()
    damaged.write_bytes(b"")
    sweep(path, "--jobs", 1)
    assert pl.read_parquet(folder / "runs" / "runs.parquet").height == 5
    path = write(folder, prices="prices.yaml", histories=["small"], seeds=[0, 1])
    assert "5 runs simulated now" in sweep(path, "--jobs", 1)


def test_processes_give_the_same_table_as_one(folder):
    path = write(folder)
    sweep(path, "--jobs", 1)
    alone = (folder / "runs" / "runs.parquet").read_bytes()
    shutil.rmtree(folder / "runs")
    assert "10 runs simulated now" in sweep(path, "--jobs", 2)
    assert (folder / "runs" / "runs.parquet").read_bytes() == alone


async def test_killed_sweep_goes_on(folder):
    path = write(folder, seeds=list(range(6)))
    command = [sys.executable, "-m", "bayplan", "sweep", str(path), "--to", str(folder / "runs"), "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: ASYNC220 - it is killed
    there = folder / "runs" / "runs"
    await until(lambda: there.is_dir() and len(list(there.glob("*.parquet"))) >= 5, within=60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    known = len(list(there.glob("*.parquet")))
    assert known < 60
    answer = sweep(path, "--jobs", 1)
    assert f"5 choices, {60 - known} runs simulated now" in answer
    assert pl.read_parquet(folder / "runs" / "runs.parquet")["key"].n_unique() == 60


def test_search_names_the_same_choices_again(folder):
    pytest.importorskip("optuna")
    varied = {
        "set": {
            "NodeResourcesFit.scoringStrategy.type": ["LeastAllocated", "MostAllocated"],
            "NodeResourcesFit.weight": list(range(1, 20)),
        }
    }
    path = write(folder, search={"trials": 9}, candidates=varied, histories=["small"])
    first = sweep(path, "--jobs", 1)
    names = sorted(pl.read_parquet(folder / "runs" / "runs.parquet")["choice"])
    assert 2 <= len(names) <= 10
    assert "0 runs simulated now" in sweep(path, "--jobs", 1)
    shutil.rmtree(folder / "runs")
    sweep(path, "--jobs", 2)
    assert sorted(pl.read_parquet(folder / "runs" / "runs.parquet")["choice"]) == names
    assert "Allocated" in first


def test_marks_of_choices():
    choices = list(grid_of({"A.weight": [1, 2, 3, 4]}))
    found = ranked(list(zip(choices, [(1.0, 9.0), (2.0, 2.0), (2.0, 3.0), (3.0, 1.0)], strict=True)), 1)
    assert [(each.choice, each.pareto, each.best) for each in found] == [
        ("A.weight=1", True, True),
        ("A.weight=2", True, False),
        ("A.weight=3", False, False),
        ("A.weight=4", True, False),
    ]


def grid_of(settings):
    from bayplan.answers.sweeps.plan import SweepCandidates, SweepPlan

    return grid(SweepPlan(("h",), SweepCandidates(set={name: tuple(each) for name, each in settings.items()})))


def test_report_has_both_objectives(folder):
    pytest.importorskip("altair")
    sweep(write(folder), "--jobs", 1, "--report", folder / "pareto.html")
    page = (folder / "pareto.html").read_text()
    assert stat.S_IMODE((folder / "pareto.html").stat().st_mode) == PRIVATE
    assert "empty_nodes_average" in page
    assert "largest_zone_share" in page


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"objectives": ["speed"]}, "objectives: unknown measure 'speed'"),
        ({"objectives": ["cost_dollars"]}, "cost_dollars needs prices"),
        ({"histories": ["nowhere"]}, "nowhere is no history"),
        ({"candidates": {"config": ["missing.yaml"]}}, "missing.yaml: No such file"),
        ({"candidates": {"wieghts": [1]}}, "unknown field `wieghts`"),
        ({"candidates": {"set": {"Nonsense.weight": [1]}}}, "there is no plugin Nonsense"),
        ({"candidates": {"set": {"NodeResourcesFit.weight": []}}}, "must not be empty"),
        ({"candidates": {"nodePools": [["name=x"]]}}, "cpu is missing"),
        ({"candidates": {"emulatedVersion": ["0.9"]}}, "unknown version '0.9'"),
    ],
)
def test_bad_input_is_one_line(folder, plan, message):
    answer = sweep(write(folder, **plan), "--jobs", 1, status=2)
    assert message in answer
    assert "Traceback" not in answer
    assert len(answer.splitlines()) == 1


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    blocks = dict(reversed(re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)))
    printed = ""
    for command in blocks["sh"].splitlines():
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
        printed += done.stdout
    assert blocks["text"] in "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
    assert load_configuration(tmp_path / "best.yaml")
    exec(compile(blocks["python"], "docs/sweep.md", "exec"), {})
    assert "cost_dollars" in capsys.readouterr().out
    assert read_plan(tmp_path / "examples" / "sweep" / "sweep.yaml").seeds == (0,)


@pytest.mark.timeout(180)
def test_ray_simulates_again_what_a_killed_worker_had(folder, monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    simulate_and_write = workers.simulate_and_write

    def killed_once(task, uri, limits):
        """Kill the process the first time that it has a task: a worker that is lost half-way."""
        mark = Path(uri) / f"killed-{task.key}"
        if task.seed == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate_and_write(task, uri, limits)

    monkeypatch.setattr(workers, "simulate_and_write", killed_once)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        path = write(folder, seeds=[0, 1], histories=["small"], candidates={"set": {"NodeResourcesFit.weight": [5]}})
        (folder / "runs").mkdir()
        answer = sweep(path, "--ray", cluster.address)
        assert "2 choices, 4 runs simulated now" in answer
        assert len(list((folder / "runs").glob("killed-*"))) == 2
        runs = pl.read_parquet(folder / "runs" / "runs.parquet")
        assert runs["key"].n_unique() == runs.height == 4
    finally:
        ray.shutdown()
        cluster.shutdown()
