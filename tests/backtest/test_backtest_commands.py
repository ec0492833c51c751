"""`bayplan simulate` and `bayplan compare`: what they print, and one line for what can't be used."""

import json
import re
import stat
import sys

import pytest
from tests.backtest.histories import pool_node, record
from tests.simulation.timelines import OWNED
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.answers.backtest.report import verdict
from bayplan.answers.simulation.happenings import PodArrives
from bayplan.answers.simulation.world import World
from bayplan.core.versions import gates_of, with_gangs
from bayplan.faces.cli.insight.cluster_options import with_names
from bayplan.foundations.file_replacement import PRIVATE
from bayplan.testing import make_pod

PREFER = """
from bayplan.plugin import Plugin

class Prefer(Plugin):
    name = "Prefer"

    def score_nodes(self, cycle, pod, nodes):
        return (nodes.label_in("kubernetes.io/hostname", ["n0"]) * 100).astype("int64")
"""
PACK = "NodeResourcesFit.scoringStrategy.type=MostAllocated"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A history of four nodes and eight pods."""
    pods = [PodArrives(60.0 + n, make_pod(f"web-{n}", cpu="1", memory="1Gi", owner=OWNED)) for n in range(8)]
    nodes = [pool_node(f"n{n}", zone="ab"[n % 2]) for n in range(4)]
    return str(record(tmp_path_factory.mktemp("histories") / "week", pods, seconds=3600.0, nodes=nodes))


def test_compare_shows_the_table(folder, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("m5.xlarge: 0.2\n")
    done = bayplan("compare", "--history", folder, "--set", PACK, "--prices", prices)
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "Good match: the simulation of now is like the history: 100% of 8 recorded decisions equal"
    )
    first_words = [line.split("  ")[0] for line in lines]
    for what in (
        "nodes, average",
        "node-hours",
        "cost",
        "wait p50",
        "wait p95",
        "wait p99",
        "evictions",
        "never placed",
    ):
        assert what in first_words
    assert any(line.startswith("largest share of a service in one zone") for line in lines)
    assert any("NodeResourcesFit +" in line for line in lines)


@cases(
    "command, series",
    {"compare": (("compare", "--set", PACK), {"recorded", "now", "candidate"}), "simulate": (("simulate",), {"now"})},
)
def test_report_is_one_page_with_plots(folder, tmp_path, command, series):
    path = tmp_path / "report.html"
    bayplan(*command, "--history", folder, "--report", path)
    page = path.read_text()
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", tags) == []  # nothing is fetched
    assert set(re.findall(r'"series": "(\w+)"', page)) == series
    assert "<td>nodes, average</td><td>4</td>" in page
    assert '<html lang="en">' in page
    assert "prefers-color-scheme: dark" in page
    assert '"background": "transparent"' in page  # the plots have the colors of the page
    assert '"renderer": "svg"' in page
    assert page.count('"currentColor"') > 5
    assert stat.S_IMODE(path.stat().st_mode) == PRIVATE
    assert tags.index("<details><summary>Details</summary>") < tags.index("<pre")  # folded
    assert re.search(r'"time": "20\d\d-\d\d-\d\dT', page)
    assert '"time:T"' not in page
    assert '"type": "temporal"' in page
    if command[0] == "compare":
        title = re.search("<title>(.*?)</title>", page)[1]
        assert title.startswith(f"{PACK}, compared with now over ")
        verdict = re.search(r'<p class="verdict">(.*?)</p>', page)[1]
        assert verdict.startswith(f"{PACK} ")
        assert verdict.endswith(".")
        assert tags.index('class="verdict"') < tags.index('class="lead"') < tags.index("<table>")


def row(what, difference):
    return what, "10", "9", difference


@cases(
    "rows, said",
    {
        "better": (
            [row("nodes, average", "-10%")],
            "X needs fewer nodes on average (9 instead of 10), and none",
        ),
        "worse": ([row("wait p95", "+3.0 s")], "X lets pods wait longer (p95) (9 instead of 10), and none of nodes"),
        "both": (
            [row("cost", "-$2"), row("evictions", "-3"), row("never placed", "+1")],
            "X costs less (9 instead of 10) and evicts fewer pods (9 instead of 10), but leaves more pods",
        ),
        "nothing": ([row("cost", ""), row("cpu stranded", "+9 points")], "X changes neither nodes, costs, waits"),
    },
)
def test_verdict_is_one_sentence(rows, said):
    found = verdict("X", rows)
    assert found.startswith(said)
    assert found.count(".") == 1


def test_report_that_cannot_be_written_is_one_line(folder, tmp_path):
    done = bayplan("simulate", "--history", folder, "--report", tmp_path, status=2)
    assert "is a directory" in done.stderr


def test_report_is_checked_before_the_simulation(folder, tmp_path, monkeypatch):
    missing = tmp_path / "missing" / "report.html"
    # The folder is not a history, which would be said later.
    done = bayplan("simulate", "--history", tmp_path, "--report", missing, status=2)
    assert done.stderr == f"main simulate: --report {missing}: there is no folder {missing.parent}\n"
    monkeypatch.setitem(sys.modules, "altair", None)
    done = bayplan("simulate", "--history", tmp_path, "--report", tmp_path / "report.html", status=2)
    assert "pip install 'bayplan[plots]'" in done.stderr


def test_json_has_what_the_table_has(folder):
    done = bayplan("compare", "--history", folder, "--set", PACK, "-o", "json")
    found = json.loads(done.stdout)
    assert found["calibration"]["equalDecisions"] == 1.0
    assert found["candidate"]["emptyNodes"] > found["now"]["emptyNodes"]
    assert {"pod", "seconds", "now", "candidate"} <= found["differences"][0].keys()
    assert found["now"]["waits"]["p50"] == 0.0
    assert found["notes"] == []


def test_simulate_shows_what_came_of_it(folder, tmp_path):
    placements = tmp_path / "placements.csv"
    placements.touch(0o644)
    done = bayplan("simulate", "--history", folder, "--placements", placements, "-o", "json")
    found = json.loads(done.stdout)
    assert (found["placed"], found["neverPlaced"], found["mostNodes"]) == (8, 0, 4)
    assert len(found["curve"]) > 100
    assert stat.S_IMODE(placements.stat().st_mode) == PRIVATE
    lines = placements.read_text().splitlines()
    assert lines[0] == "seconds,pod,node,wait_seconds"
    assert len(lines) == 9
    assert done.stdout == bayplan("simulate", "--history", folder, "--placements", placements, "-o", "json").stdout


def test_a_plugin_is_a_candidate(folder, tmp_path):
    plugin = tmp_path / "prefer.py"
    plugin.write_text(PREFER)
    done = bayplan("compare", "--history", folder, "--plugin", f"{plugin}:Prefer", "-o", "json")
    assert json.loads(done.stdout)["changedDecisions"] > 0


def test_what_has_no_price_is_named_and_not_free(folder, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("m5.huge: 3\n")
    done = bayplan("compare", "--history", folder, "--set", PACK, "--prices", prices)
    assert f"note: {prices}: no price for m5.xlarge: its node-hours are not in the cost" in done.stdout
    assert f"note: {prices}: there are no nodes of type m5.huge" in done.stdout
    assert not any(line.startswith("cost") for line in done.stdout.splitlines())


NO_PRICES = "expected prices for an hour by instance type, as in `m5.large: 0.096`"


@pytest.mark.parametrize(
    ("arguments", "files", "message"),
    [
        (["compare", "--history", "{folder}"], {}, "expected a candidate: --config, --set, --plugin, --node-pool"),
        (["compare", "--history", "nowhere", "--set", PACK], {}, "nowhere: there is no such folder"),
        (["simulate", "--history", "empty"], {"empty/x": ""}, "is an empty history: it has no events"),
        (["compare", "--history", "{folder}", "--set", "Fit.a=1"], {}, "--set Fit.a=1: there is no plugin Fit"),
        (["compare", "--history", "{folder}", "--set", "x"], {}, "--set x: expected [PROFILE/]PLUGIN.ARGUMENT=VALUE"),
        (
            ["compare", "--history", "{folder}", "--set", "NodeResourcesFit.scoringStrategy.typ=1"],
            {},
            "unknown field: did you mean 'type'?",
        ),
        (
            ["compare", "--history", "{folder}", "--set", "a/NodeResourcesFit.weight=2"],
            {},
            "there is no profile 'a'; there is default-scheduler, bayplan-scheduler",
        ),
        (["simulate", "--history", "{folder}", "--prices", "p.yaml"], {"p.yaml": "[]"}, f"p.yaml: {NO_PRICES}"),
        (
            ["simulate", "--history", "{folder}", "--prices", "p.yaml"],
            {"p.yaml": "m5.large: cheap"},
            "p.yaml: m5.large: 'cheap' is no price",
        ),
        (
            ["simulate", "--history", "{folder}", "--models", "m.yaml"],
            {"m.yaml": "pods: {startup: 3}"},
            "m.yaml: Object contains unknown field `startup` - at `$.pods`",
        ),
        (
            ["simulate", "--history", "{folder}", "--models", "m.yaml"],
            {"m.yaml": "autoscaler: {preset: magic}"},
            "m.yaml: autoscaler.preset is 'magic'; expected one of none, cluster-autoscaler, karpenter",
        ),
        (
            ["simulate", "--history", "{folder}", "--models", "m.yaml"],
            {"m.yaml": "autoscaler: {rules: {idle: 3, speed: 9}}"},
            "m.yaml: autoscaler.rules.speed is unknown; there are scan, scanIdle",
        ),
        (
            ["compare", "--history", "{folder}", "--node-pool", "name=big,cpu=many,memory=1Gi"],
            {},
            "cpu=many is no quantity",
        ),
        (["compare", "--history", "{folder}", "--node-pool", "name=big,cpu=4"], {}, "memory is missing"),
        (["compare", "--history", "{folder}", "--node-pool", "size=big"], {}, "'size=big': expected name=NAME"),
        (
            ["compare", "--history", "{folder}", "--node-pool", "name=big,cpu=4,memory=1Gi,replaces=other"],
            {},
            "--node-pool big: there is no pool 'other' to replace; there is pool",
        ),
        (
            ["compare", "--history", "{folder}", "--node-pool", "name=b,cpu=4,memory=1Gi", "--autoscaler", "none"],
            {},
            "--node-pool needs an autoscaler that adds its nodes",
        ),
    ],
    ids=lambda value: "-" if not isinstance(value, str) else value[:40],
)
def test_bad_input_is_one_line(folder, tmp_path, monkeypatch, arguments, files, message):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = bayplan(*(argument.format(folder=folder) for argument in arguments), status=2)
    assert message in done.output
    assert "Traceback" not in done.output
    assert not done.stdout


def test_a_history_of_one_moment_has_nothing_to_compare(tmp_path):
    folder = record(tmp_path / "moment", [], seconds=0.0, nodes=[pool_node("n0")])
    done = bayplan("simulate", "--history", folder, status=2)
    assert "has no length: all that it says is from one moment" in done.output


ONLY_IN_1_37 = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: VolumeBinding
    args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
"""


def test_each_side_decides_as_its_version(folder, tmp_path):
    config = tmp_path / "candidate.yaml"
    config.write_text(ONLY_IN_1_37)
    done = bayplan("compare", "--history", folder, "--config", config, "--candidate-emulated-version", "1.36", status=2)
    assert "shape" in done.output
    done = bayplan("simulate", "--history", folder, "--config", config, "--emulated-version", "1.37")
    done = bayplan("compare", "--history", folder, "--config", config, "--candidate-emulated-version", "1.37")
    bayplan("compare", "--history", folder, "--candidate-emulated-version", "1.37")
    done = bayplan("compare", "--history", folder, "--candidate-emulated-version", "1.99", status=2)
    assert "--emulated-version: unknown version '1.99'" in done.stderr


def test_other_scheduler_names_have_the_plugins_of_their_version():
    gates = with_gangs(gates_of("1.37"))
    configuration, _ = with_names((None, ()), ["other"], gates)
    world = World(configuration, (), gates)
    assert {plugin.name for plugin in world.profiles["other"].every()} == {
        plugin.name for plugin in World(None, (), gates).profiles["default-scheduler"].every()
    }
    assert "WorkloadAwarePreemption" in {plugin.name for plugin in world.profiles["other"].every()}
