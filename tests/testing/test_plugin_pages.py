"""The code on the pages for authors of plugins runs, and its plugins keep their contract."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profile, parse_configuration
from bayplan.core.framework import gangs, interface
from bayplan.core.framework.functions import FunctionPlugin
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.profile import Point
from bayplan.testing import CHECKS, check_contract, make_namespace, make_node, make_pod

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "plugins.md"


def blocks(page, language):
    """The blocks of a language, each below as many empty lines as it has lines above it on the page."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield "\n" * (text[: match.start()].count("\n") + 1) + match[1]


@pytest.fixture(scope="module")
def page():
    """Run all blocks of the page, and return them as one module."""
    module = ModuleType("plugins_page")
    sys.modules[module.__name__] = module
    for block in blocks(PAGE, "python"):
        exec(compile(block, PAGE, "exec"), vars(module))
    yield module
    del sys.modules[module.__name__]


def plugins_of(page):
    return {
        value.name: value
        for value in vars(page).values()
        if isinstance(value, FunctionPlugin)
        or (isinstance(value, type) and issubclass(value, Plugin) and value is not Plugin)
    }


NAMES = re.findall(r'^    name = "(\w+)"|^def (\w+)\(pod, nodes?\):', PAGE.read_text(encoding="utf-8"), re.MULTILINE)
SPOT_PRICES = "pricelists.v1.example.com", {"metadata": {"name": "spot"}, "prices": {"n0": 5, "n1": 50}}
OPTIONS = {
    "Pinned": {"words": ["n0", "n1"], "pods": [make_pod("waiting"), make_pod("other")]},
    "FrozenNamespaces": {
        "words": ["example.com/frozen"],
        "objects": [make_namespace("default", **{"example.com/frozen": "yes"})],
    },
    "Approvals": {"skip": ["binding"]},
    "Cool": {
        "objects": [
            make_node("warm"),
            make_node("cold"),
            ("readings.v1.example.com", {"metadata": {"name": "warm"}, "status": {"degrees": 60}}),
        ]
    },
    "Licenses": {"skip": ["exercise"]},
    "Prices": {"skip": ["exercise"]},
    "RecordedPrices": {"objects": [SPOT_PRICES]},
    "AskedPrices": {"objects": [SPOT_PRICES]},
    "OneOfATeam": {"examples": 60},  # it rejects pods in few clusters
}


NOT_SHOWN = {
    interface.RestsOn,
    interface.Allocates,
    interface.Contends,
    interface.ExplainPostFilter,
    gangs.FewerMembers,
    gangs.GangGiveBack,
    gangs.PlacementBound,
}
"""The page only names their methods."""
EXAMPLES = 30
"""The page's plugins are small."""


@pytest.mark.parametrize("name", [function or cls for cls, function in NAMES])
def test_every_plugin_of_the_page_keeps_the_contract(page, name):
    check_contract(plugins_of(page)[name], **{"examples": EXAMPLES, **OPTIONS.get(name, {})})


def test_the_page_has_every_extension_point(page):
    known = [*vars(interface).values(), *vars(gangs).values()]
    forms = [form for form in known if getattr(form, "_is_runtime_protocol", False)]
    missing = [
        form.__name__
        for form in forms
        if form not in NOT_SHOWN and not any(issubclass(_class(each), form) for each in plugins_of(page).values())
    ]
    assert missing == []
    text = PAGE.read_text(encoding="utf-8")
    methods = [name for form in forms for name, _ in inspect.getmembers(form, inspect.isfunction) if name[0] != "_"]
    assert [name for name in methods if name not in text] == []


def test_the_configuration_of_the_page_can_be_built(page):
    (text,) = blocks(PAGE, "yaml")
    (profile,) = parse_configuration(yaml.safe_load(text)).profiles
    built = build_profile(profile, OfflineHandle(ClusterState()), [page.Quota, page.NotTooFull])
    assert {"Quota", "NotTooFull"} <= {plugin.name for plugin in built.at(Point.FILTER)}
    quota = next(plugin for plugin in built.every() if plugin.name == "Quota")
    assert quota.args.most == 4
    assert built.weights["NotTooFull"] == 3


def test_the_tests_of_the_testing_page_pass(tmp_path):
    code = [block.lstrip("\n") for block in blocks(DOCS / "testing.md", "python")]
    (tmp_path / "test_page.py").write_text("\n\n".join(code))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["bayplan.testing.fixtures"]\n')
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


def test_the_testing_page_names_every_check():
    text = (DOCS / "testing.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| `.*", text, re.MULTILINE)))) >= set(CHECKS)


def _class(plugin):
    return plugin if isinstance(plugin, type) else type(plugin)
