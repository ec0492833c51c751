"""A broken plugin costs a line that names it, or its pods: no command ends with a traceback of Bayplan's.

What a running scheduler makes of broken plugins is in `tests/service/test_broken_plugins.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.project.test_hostile_files import NODE, POD
from tests.support.commands import bayplan
from tests.support.tables import cases
from tests.support.waiting import until

from bayplan.answers.backtest.sample import write_sample
from bayplan.client import ClusterAccess, HttpClient
from bayplan.core.config import PluginLoadError
from bayplan.core.config.plugin_files import load_plugins
from bayplan.faces.cli.shadow_running import ShadowOptions, ShadowRun, read_compared
from bayplan.testing import BrokenContract, check_contract, make_node, make_pod
from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer

RECORDING = Path(__file__).parents[1] / "data/recordings/version-2.tar"
HEAD = """
import asyncio, math
import numpy as np
from bayplan import *
class Odd:
    def __repr__(self): raise ValueError("no repr")
    def __eq__(self, other): raise ValueError("no eq")
    def __hash__(self): raise ValueError("no hash")
    def __bool__(self): raise ValueError("no bool")
class Unreadable(Exception):
    def __str__(self): raise ValueError("no str")
class Base(BaseException): pass
class Meta(type(Plugin)):
    def __dir__(cls): raise ValueError("no dir")
class Name(str):
    def __hash__(self): raise ValueError("no hash")
class Descriptor:
    def __get__(self, instance, owner=None): raise ValueError("no attribute")
class Signed:
    __signature__ = 5
    def __call__(self, *arguments): return None
def deep(): return deep()
def endless():
    while True: yield EventHint(ClusterEvent("Node", Action.ADD))
"""
FILTER = "    def filter(self, cycle, pod, node): return None\n"
SCORE = "    def score(self, cycle, pod, node): return 1\n"


def plugin(body: str, head: str = "class P(Plugin):\n    name = 'P'\n") -> bytes:
    return (HEAD + head + body).encode()


FILES: dict[str, tuple[bytes, str]] = {
    "a syntax error": (b"def (:\n", "line 1: invalid syntax"),
    "a null byte": (b"x = 1\0\n", "null bytes"),
    "not UTF-8": (b"x = '\xff\xfe'\n", "codec can't decode byte 0xff"),
    "an unknown encoding": (b"# coding: nonesuch\n", "unknown encoding: nonesuch"),
    "nested too deeply": (b"x = " + b"+".join([b"1"] * 20_000) + b"\n", "RecursionError: maximum recursion depth"),
    "raises": (b"raise ValueError('oh')\n", "line 1: ValueError: oh"),
    "exits": (b"raise SystemExit('oh')\n", "line 1: SystemExit: oh"),
    "recursion": (plugin("deep()\n", ""), "RecursionError: maximum recursion depth exceeded"),
    "an error without a text": (plugin("raise Unreadable\n", ""), "Unreadable: (the message cannot be read)"),
    "an error that is no Exception": (plugin("raise Base('oh')\n", ""), "Base: oh"),
    "__init__ raises": (
        plugin(FILTER + "    def __init__(self): raise Unreadable\n"),
        "'P' failed to start: Unreadable",
    ),
    "__init__ exits": (
        plugin(FILTER + "    def __init__(self): raise SystemExit(3)\n"),
        "failed to start: SystemExit: 3",
    ),
    "__new__ returns a number": (plugin(FILTER + "    def __new__(cls): return 5\n"), "plugin 'P' becomes 5, expected"),
    "no attribute of an instance": (
        plugin(FILTER + "    def __getattribute__(self, name): raise ValueError(name)\n"),
        "'P' failed to start: ValueError: name",
    ),
    "no name": (plugin(FILTER, "class P(Plugin):\n"), "has no plugin: expected"),
    "an empty name": (plugin(FILTER, "class P(Plugin):\n    name = ''\n"), "has no `name`"),
    "a name that raises": (
        plugin(FILTER + "    @property\n    def name(self): raise ValueError\n", "class P(Plugin):\n"),
        "has no plugin: expected",
    ),
    "a name without a hash": (plugin(FILTER, "class P(Plugin):\n    name = Name('P')\n"), "ValueError: no hash"),
    "two of one name": (
        plugin(FILTER + "class Q(Plugin):\n    name = 'P'\n" + FILTER),
        "plugin name 'P' is already used by another plugin",
    ),
    "an odd module": (plugin(FILTER + "P.__module__ = Odd()\n"), "ValueError: no eq"),
    "an odd metaclass": (plugin(FILTER, "class P(Plugin, metaclass=Meta):\n    name = 'P'\n"), "ValueError: no dir"),
    "odd arguments": (plugin(FILTER + "    arguments = Odd()\n"), "`arguments` is an object of the type Odd"),
    "a signature that is none": (plugin("    filter = Signed()\n"), "unexpected object 5 in __signature__"),
    "a class whose signature is none": (plugin(FILTER + "    __signature__ = 5\n"), "'P': __init__ can't be looked at"),
    "a method that raises": (plugin("    filter = Descriptor()\n"), "ValueError: no attribute"),
    "a method that is none": (plugin(SCORE + "    filter = 5\n"), "filter is 5, expected a method"),
    "a weight in words": (plugin(SCORE + "    weight = 'much'\n"), "its weight is 'much', expected a positive integer"),
    "a weight that is no number": (plugin(SCORE + "    weight = math.nan\n"), "its weight is nan, expected"),
    "a huge weight": (plugin(SCORE + "    weight = 10**30\n"), "expected a positive integer"),
    "a promise without a truth": (
        plugin(FILTER + "    reads_pods = Odd()\n"),
        "reads_pods is an object of the type Odd",
    ),
    "asynchronous": (plugin("    async def filter(self, cycle, pod, node): return None\n"), "must not be asynchronous"),
    "a plain background": (plugin(FILTER + "    def background(self): pass\n"), "make it an `async def`"),
    "events raise": (plugin(FILTER + "    def events(self): raise Unreadable\n"), "events failed: Unreadable"),
    "endless events": (
        plugin(FILTER + "    def events(self): return endless()\n"),
        "events yields more than 1000 hints",
    ),
    "odd events": (
        plugin(FILTER + "    def events(self): return [EventHint(ClusterEvent(Odd(), Odd()))]\n"),
        "events yielded an object of the type EventHint, expected an EventHint(",
    ),
}
"""Files that no scheduler can be made of, with what is said about each."""

METHODS = {
    "filter": "self, cycle, pod, node",
    "filter_nodes": "self, cycle, pod, nodes",
    "pre_enqueue": "self, pod",
    "pre_filter": "self, cycle, pod, nodes",
    "post_filter": "self, cycle, pod, diagnosis, what_if",
    "score": "self, cycle, pod, node",
    "score_nodes": "self, cycle, pod, nodes",
    "normalize_scores": "self, cycle, pod, scores, nodes",
    "reserve": "self, cycle, pod, node_name",
    "permit": "self, cycle, pod, node_name",
    "sort_key": "self, pod, queued_at",
    "sign": "self, pod",
    "rests_on": "self, pod, nodes",
    "gang_of": "self, pod",
}
BESIDE = {
    "normalize_scores": SCORE,
    "reserve": "    def unreserve(self, cycle, pod, node_name): pass\n",
    "sign": FILTER,
    "rests_on": FILTER + "    def sign(self, pod): return ()\n",
    "gang_of": "    def permit(self, cycle, pod, node_name): return None\n",
}
ANSWERS: dict[str, tuple[str, str, str]] = {
    "raises": ("filter", "raise KeyError('oh')", "KeyError: 'oh'"),
    "raises what has no text": ("filter", "raise Unreadable", "Unreadable: (the message cannot be read)"),
    "raises what is no Exception": ("score", "raise Base('oh')", "Base: oh"),
    "recursion": ("filter", "return deep()", "RecursionError"),
    "an odd object": ("filter", "return Odd()", "returned an object of the type Odd; expected None"),
    "a list of odd objects": ("pre_filter", "return [Odd()]", "returned an object of the type list; expected None"),
    "a number": ("pre_filter", "return 3.5", "returned 3.5; expected None"),
    "half a character": ("filter", r"return '\ud800'", r"\ud800"),
    "a generator": ("filter", "yield 1", "returned <generator object"),
    "an odd reason": ("filter", "return Status(Code.UNSCHEDULABLE, (Odd(),))", "a reason of a Status is an object"),
    "a text for reasons": ("filter", "return Status(Code.UNSCHEDULABLE, 'no')", "reasons of a Status are 'no'"),
    "an unknown code": ("filter", "return Status(17)", "expected a Code and a name"),
    "odd names": ("pre_filter", "return NodeNames(Odd())", "give NodeNames a frozenset of node names"),
    "a list of names": ("pre_filter", "return NodeNames(['a'])", "give NodeNames a frozenset of node names"),
    "odd rejections": ("filter_nodes", "return Rejections(None, None)", "the index of Rejections is None"),
    "a status too few": (
        "filter_nodes",
        "return Rejections(np.full(len(nodes), 7), ())",
        "the index has 7, but there are 0",
    ),
    "rejections of others": ("filter_nodes", "return Rejections(np.zeros(99, int), ())", "or Rejections of 6 nodes"),
    "an odd pre_enqueue": ("pre_enqueue", "return Odd()", "returned an object of the type Odd; expected None"),
    "an odd post_filter": ("post_filter", "return Odd()", "returned an object of the type Odd, expected a PostFilter"),
    "odd victims": (
        "post_filter",
        "return PostFilterResult(Status(Code.SUCCESS), 'a', (Odd(),))",
        "victims of a PostFilter",
    ),
    "an odd score": ("score", "return Odd()", "expected an integer, got an object of the type Odd"),
    "NaN": ("score", "return math.nan", "expected an integer, got nan"),
    "beyond 100": ("score", "return 101", "returns an invalid score 101, it should in the range of [0, 100]"),
    "below 0": ("score", "return -1", "returns an invalid score -1, it should in the range of [0, 100]"),
    "a huge score": ("score", "return 10**30", "expected an integer of 64 bits"),
    "scores of others": ("score_nodes", "return np.zeros(99, int)", "expected an array of 6 integers, got int64[99]"),
    "scores that are objects": ("score_nodes", "return np.array([Odd()], object)", "expected an array of 6 integers"),
    "odd normalized scores": ("normalize_scores", "return Odd()", "expected an array of 6 integers, got Odd"),
    "an odd reserve": ("reserve", "return Odd()", "returned an object of the type Odd; expected None"),
    "an odd wait": ("permit", "return Wait(math.nan)", "Wait(nan): expected a number of seconds"),
    "an odd gang": ("gang_of", "return Odd()", "answered an object of the type Odd, expected a Gang or None"),
    "an odd order": ("sort_key", "return Odd()", "failed in QueueSort: TypeError: '<' not supported"),
    "an odd signature": ("sign", "return Odd()", "failed in Sign: ValueError: no hash"),
    "what an odd thing rests on": ("rests_on", "return Odd()", "failed in RestsOn: ValueError: no hash"),
}
"""What methods of a plugin do wrong, with what is said about each."""


def answering(method: str, body: str) -> bytes:
    return plugin(f"    def {method}({METHODS[method]}):\n        {body}\n{BESIDE.get(method, '')}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six nodes, a pod that fits and one that doesn't."""
    nodes = [{**NODE, "metadata": {"name": name}} for name in "abcdef"]
    large = [{"name": "c", "resources": {"requests": {"cpu": "400"}}}]
    pods = [POD, {**POD, "metadata": {"name": "large", "namespace": "default"}, "spec": {"containers": large}}]
    path = tmp_path_factory.mktemp("cluster") / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*nodes, *pods]}))
    return path


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history") / "night"
    write_sample(folder, days=0.02)
    return folder


def written(folder: Path, content: bytes) -> Path:
    path = folder / "policy.py"
    path.write_bytes(content)
    return path


def said(caplog: pytest.LogCaptureFixture, output: str) -> str:
    """All that a user sees, and no frame of Bayplan's own before those of the plugin."""
    for record in caplog.records:
        frames = (record.exc_text or "").splitlines()
        assert not frames or "policy.py" in frames[1], record.exc_text
    return f"{output}\n{caplog.text}"


@cases("content, message", FILES)
def test_file_that_is_no_plugin_is_named_with_its_mistake(tmp_path, cluster, caplog, content, message):
    path = written(tmp_path, content)

    ended = bayplan("explain", "--all-pending", "--from", cluster, "--plugin", path, status=2)

    assert message in ended.stderr
    assert all(len(line) < 1000 for line in ended.stderr.splitlines())
    said(caplog, ended.output)


@cases("method, body, message", ANSWERS)
def test_wrong_answer_costs_a_pod_its_attempt(tmp_path, cluster, caplog, method, body, message):
    path = written(tmp_path, answering(method, body))

    ended = bayplan("explain", "--all-pending", "--from", cluster, "--plugin", path)

    assert message in said(caplog, ended.output)


def test_half_a_character_in_an_error_is_printed(tmp_path, cluster):
    path = written(tmp_path, answering("filter", r"raise ValueError('\ud800')"))
    command = [sys.executable, "-m", "bayplan", "explain", "--all-pending", "--from", cluster, "--plugin", path]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # a log of pytest can't have it

    assert r"ValueError: \ud800" in ended.stderr + ended.stdout


def commands(cluster: Path, history: Path) -> dict[str, list[Any]]:
    """The commands that take a plugin and end by themselves."""
    return {
        "explain": ["explain", "p", "--from", cluster],
        "why-not": ["why-not", "p", "a", "--from", cluster],
        "what-if": ["what-if", "--cordon", "a", "--from", cluster],
        "capacity": ["capacity", "--like", "p", "--from", cluster],
        "simulate": ["simulate", "--history", history],
        "compare": ["compare", "--history", history, "--seeds", 1],
        "replay": ["replay", RECORDING],
    }


@pytest.mark.parametrize("command", ["explain", "why-not", "what-if", "capacity", "simulate", "compare", "replay"])
@pytest.mark.parametrize(
    "name", ["an odd object", "raises what is no Exception", "an odd signature", "an odd post_filter"]
)
def test_every_command_ends_with_what_is_known(tmp_path, cluster, history, caplog, command, name):
    method, body, _ = ANSWERS[name]
    path = written(tmp_path, answering(method, body))

    ended = bayplan(*commands(cluster, history)[command], "--plugin", path, status=None)

    assert ended.exit_code in {0, 1, 2}
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    said(caplog, ended.output)


def swept(folder: Path, history: Path) -> list[Any]:
    """A sweep whose only choice, beside now, has the plugin of the folder."""
    plan = {"histories": [str(history)], "candidates": {"plugins": [["policy.py"]]}}
    (folder / "sweep.json").write_text(json.dumps(plan))
    return ["sweep", folder / "sweep.json", "--to", folder / "runs", "--jobs", 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("an odd object", "returned an object of the type Odd"),
        ("raises what is no Exception", "Base: oh"),
        ("an odd signature", "in Sign failed"),
        ("an odd post_filter", ""),
    ],
)
def test_choice_of_a_sweep_with_a_broken_plugin_costs_only_itself(tmp_path, history, caplog, name, message):
    method, body, _ = ANSWERS[name]
    written(tmp_path, answering(method, body))

    ended = bayplan(*swept(tmp_path, history))

    lines = ended.stdout.splitlines()
    assert any(line.startswith("now ") for line in lines), ended.output
    assert message in ended.output
    said(caplog, ended.output)


def test_choice_of_a_sweep_names_a_file_that_is_no_plugin(tmp_path, history):
    path = written(tmp_path, FILES["a name without a hash"][0])

    ended = bayplan(*swept(tmp_path, history))

    (note,) = (line for line in ended.stdout.splitlines() if line.startswith("note: "))
    assert note.startswith(f"note: policy.py, auto: {path}: line ")
    assert note.endswith("ValueError: no hash")


@pytest.mark.parametrize("name", [None, "raises what is no Exception", "an odd signature"])
async def test_shadow_with_a_broken_plugin_goes_on(tmp_path, capsys, caplog, name):
    method, body, message = ANSWERS[name] if name else ("filter", "return None", "")
    path = written(tmp_path, answering(method, body))
    async with ApiServer() as server, HttpClient(ClusterAccess(server=server.url)) as client:
        load(server, make_node("a", cpu="4"), make_node("b", cpu="8"))
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        options = ShadowOptions(kubeconfig=str(tmp_path / "kubeconfig"), output="lines", every=True, decisions=2)
        run = ShadowRun(read_compared((), (), (str(path),), None), options)
        running = asyncio.create_task(run.run())
        seen = await until(lambda: re.search(".*Comparing.*", capsys.readouterr().err, re.DOTALL))
        for pod in ("one", "two"):
            load(server, make_pod(pod, cpu="1"))
            await client.bind("default", pod, "b")
        await asyncio.wait_for(running, 20)

    out, err = capsys.readouterr()
    assert sum(each.number for each in run.record.tally.counts) == 2
    assert message in said(caplog, seen[0] + out + err)


def test_shadow_names_a_file_that_is_no_plugin(tmp_path):
    path = written(tmp_path, FILES["a name without a hash"][0])

    ended = bayplan("shadow", "--kubeconfig", "none", "--plugin", path, status=2)

    assert f"{path}: line " in ended.stderr
    assert "ValueError: no hash" in ended.stderr


@pytest.mark.parametrize("command", ["why-not", "simulate", "compare", "replay", "extender", "run"])
def test_every_command_names_a_file_that_is_no_plugin(tmp_path, cluster, history, command):
    path = written(tmp_path, FILES["a name without a hash"][0])
    own = {"extender": ["extender"], "run": ["run", "--kubeconfig", cluster]}

    ended = bayplan(*({**commands(cluster, history), **own}[command]), "--plugin", path, status=None)

    assert ended.exit_code in {1, 2}
    assert isinstance(ended.exception, SystemExit)
    assert f"{path}: line " in ended.stderr
    assert "ValueError: no hash" in ended.stderr


@pytest.mark.parametrize(
    "name", ["an odd object", "an odd reason", "raises what has no text", "NaN", "a status too few"]
)
def test_contract_reports_what_breaks_it(tmp_path, name):
    method, body, message = ANSWERS[name]
    [broken] = load_plugins([str(written(tmp_path, answering(method, body)))])

    with pytest.raises(BrokenContract) as told:
        check_contract(broken)

    assert message.split(";")[0] in str(told.value)


def test_folder_is_no_plugin(tmp_path):
    with pytest.raises(PluginLoadError, match="is a directory, and has no Python file"):
        load_plugins([str(tmp_path) + "/"])
