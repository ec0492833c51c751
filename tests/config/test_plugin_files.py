"""The user's plugins: loaded from files and modules, built with arguments, added to profiles."""

import random
import signal
import sys

import msgspec
import numpy as np
import pytest
from tests.support.tables import cases

from bayplan import Action, ClusterEvent, EventHint, Plugin, Rejections, filter_plugin, score_plugin
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import (
    ConfigurationError,
    KubeSchedulerProfile,
    PluginLoadError,
    build_profile,
    default_profile,
    load_plugins,
)
from bayplan.core.config.catalog import Catalog
from bayplan.core.config.plugin_files import installed_plugins
from bayplan.core.config.types import PluginConfig, PluginReference, Plugins, PluginSet
from bayplan.core.framework.checks import check_events
from bayplan.core.framework.events import ALL_EVENTS
from bayplan.core.framework.functions import InvalidPlugin
from bayplan.core.framework.profile import Point
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_cluster, make_node, make_pod

POLICY = '''
from bayplan import filter_plugin, score_plugin, Plugin

@filter_plugin
def tier(pod, node):
    """Keep ordinary pods off the control plane."""
    if node.labels.get("tier") == "control":
        return "node is reserved for the control plane"

@score_plugin
def cheap(pod, node):
    return 100 - int(node.labels.get("example.com/price", 100))

class Namespaces(Plugin):
    name = "Namespaces"

    def pre_filter(self, cycle, pod, nodes):
        return "not from here" if pod.namespace == "other" else None
'''


CLASS = "from bayplan import Plugin\nclass P(Plugin):\n    name = 'P'\n"


def handle():
    return OfflineHandle(ClusterState())


def write(tmp_path, text, name="policy.py"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_plugins_of_a_file_make_decisions(tmp_path):
    plugins = load_plugins([write(tmp_path, POLICY)])
    assert [plugin.name for plugin in plugins] == ["tier", "cheap", "Namespaces"]
    cluster = make_cluster(
        make_node("control", labels={"tier": "control", "example.com/price": "0"}),
        make_node("dear", labels={"example.com/price": "90"}),
        make_node("fair", labels={"example.com/price": "50"}),
        plugins=plugins,
    )
    decision = cluster.decide(make_pod("p"))
    assert decision.node == "fair"
    assert decision.scores.plugins["cheap"].tolist() == [10, 50]
    assert not cluster.decide(make_pod("p", namespace="other")).node
    assert [plugin.name for plugin in cluster.profile.at(Point.FILTER)][-1] == "tier"


@pytest.mark.parametrize(("name", "found"), [("tier", "tier"), ("Namespaces", "Namespaces")])
def test_a_single_plugin_of_a_file(tmp_path, name, found):
    assert [plugin.name for plugin in load_plugins([f"{write(tmp_path, POLICY)}:{name}"])] == [found]


def test_files_with_the_same_name_are_different_modules(tmp_path):
    (tmp_path / "sub").mkdir()
    first = write(tmp_path, POLICY.replace("tier(", "first("))
    second = write(tmp_path / "sub", POLICY.replace("tier(", "second("))
    known = sys.modules.get("policy")
    assert [load_plugins([f"{first}:first"])[0].name, load_plugins([f"{second}:second"])[0].name] == ["first", "second"]
    assert sys.modules.get("policy") is known


def test_a_module(tmp_path, monkeypatch):
    write(tmp_path, POLICY, "policy_module_for_test.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_plugins(["policy_module_for_test:cheap"])[0].name == "cheap"


@cases(
    "text, message",
    {
        "no plugin": ("x = 1\n", "has no plugin: expected a function with @filter_plugin"),
        "a syntax error": ("def f(:\n", "line 1: "),
        "an exception": ("\n\n1 / 0\n", "line 3: ZeroDivisionError"),
        "an import": ("import nonesuch_module\n", "line 1: ModuleNotFoundError: No module named 'nonesuch_module'"),
        "exits": ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
        "cancels": ("import asyncio\nraise asyncio.CancelledError\n", "line 2: CancelledError"),
        "function with too few arguments": (
            "from bayplan import filter_plugin\n\n@filter_plugin\ndef f(pod):\n    pass\n",
            "line 3: filter plugin 'f': is called with (pod, node), but too many positional arguments",
        ),
        "method with too few arguments": (
            CLASS + "    def filter(self, pod, node): pass\n",
            (
                "plugin 'P': filter is called with (cycle, pod, node), but too many positional arguments; "
                "expected def filter(self, cycle, pod, node)"
            ),
        ),
        "no extension point": (
            "from bayplan import Plugin\nclass P(Plugin):\n    name = 'P'\n",
            "plugin 'P' implements no extension point",
        ),
        "reserve without unreserve": (
            CLASS + "    def reserve(self, cycle, pod, node_name): pass\n",
            "plugin 'P' has reserve, but lacks unreserve",
        ),
        "a Go name": (
            CLASS + "    def PreFilter(self, cycle, pod, nodes): pass\n",
            "plugin 'P' has PreFilter, which is never called: rename it to pre_filter",
        ),
        "a Go name with a different name in Python": (
            CLASS + "    def EventsToRegister(self): pass\n    def filter(self, cycle, pod, node): pass\n",
            "plugin 'P' has EventsToRegister, which is never called: rename it to events",
        ),
        "an asynchronous filter": (
            CLASS + "    async def filter(self, cycle, pod, node): pass\n",
            "plugin 'P': filter must not be asynchronous: make it a plain `def`, and await in bind or pre_bind instead",
        ),
        "arguments that aren't a type": (
            CLASS + "    arguments = {'most': 3}\n    def filter(self, cycle, pod, node): pass\n",
            "plugin 'P': `arguments` is {'most': 3}, expected a type: a msgspec.Struct or a dataclass",
        ),
    },
)
def test_invalid_files_are_rejected(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(PluginLoadError) as error:
        load_plugins([path])
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_keyboard_interrupt_of_a_file_counts_as_ctrl_c(tmp_path):
    path = write(tmp_path, "raise KeyboardInterrupt\n")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_plugins([path])
        signal.signal(signal.SIGINT, lambda *_: None)
        with pytest.raises(PluginLoadError, match="line 1: KeyboardInterrupt"):
            load_plugins([path])
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("./nonesuch.py", "nonesuch.py: no such file"),
        ("nonesuch_module", "nonesuch_module: no such module; for a file, add its extension"),
        ("bayplan.core.framework:Nonesuch", "has no plugin"),
    ],
)
def test_the_error_names_what_was_not_found(reference, message):
    with pytest.raises(PluginLoadError) as error:
        load_plugins([reference])
    assert message in str(error.value)


def install(folder, entry_point, text):
    """Create a distribution with a plugin, as pip installs it."""
    info = folder / "some_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bayplan.plugins]\n{entry_point}\n")
    (folder / "some_policies.py").write_text(text)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("some_policies", None)


@pytest.mark.parametrize("name", ["tier", "Namespaces"])
def test_an_installed_plugin_is_loaded_by_name(site, name):
    install(site, f"{name} = some_policies:{name}", POLICY)
    assert name in installed_plugins()
    assert "some_policies" not in sys.modules
    assert load_plugins([name])[0].name == name


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("other = some_policies:tier", "name is 'tier', but its entry point is 'other': use the same name"),
        ("other = some_policies:nonesuch", "AttributeError: module 'some_policies' has no attribute 'nonesuch'"),
        ("other = some_policies:filter_plugin", "is not a plugin: expected a function with @filter_plugin"),
        ("other = nonesuch_module:x", "ModuleNotFoundError: No module named 'nonesuch_module'"),
    ],
)
def test_invalid_installed_plugins_are_rejected(site, entry_point, message):
    install(site, entry_point, POLICY)
    with pytest.raises(PluginLoadError) as error:
        load_plugins(["other"])
    assert str(error.value).startswith("some-policies: ")
    assert message in str(error.value)


def test_the_error_lists_installed_plugins(site):
    install(site, "tier = some_policies:tier", POLICY)
    with pytest.raises(PluginLoadError, match=r"no such module; .*; installed plugins are .*\btier\b"):
        load_plugins(["teir"])


def test_the_error_lists_the_plugins_of_the_file(tmp_path):
    with pytest.raises(PluginLoadError, match="has no plugin 'odd'; it has tier, cheap, Namespaces"):
        load_plugins([f"{write(tmp_path, POLICY)}:odd"])


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (".", ".: is a directory: expected a Python file, such as one.py"),
        ("./", ".: is a directory: expected a Python file, such as one.py"),
        ("..", "..: is a directory, and has no Python file"),
        ("./notes.txt", "notes.txt: is not a Python file"),
        ("none-such", "'none-such' is no file and no module"),
        ("a b", "'a b' is no file and no module"),
        ("", "'' is no file and no module"),
        (".one", "'.one' is no file and no module"),
    ],
)
def test_a_reference_that_names_neither_a_file_nor_a_module(reference, problem, tmp_path, monkeypatch):
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "one.py").touch()
    (folder / "notes.txt").touch()
    monkeypatch.chdir(folder)
    with pytest.raises(PluginLoadError) as error:
        load_plugins([reference])
    assert str(error.value) == problem


class Limits(msgspec.Struct):
    most: int = 10


class Limited(Plugin):
    name = "Limited"
    arguments = Limits

    def __init__(self, args, handle):
        self.most = args.most
        self.handle = handle

    def filter(self, cycle, pod, node):
        return None if len(node.pods) < self.most else "full"


def profile_with(args=None, enabled=("Limited",)):
    return KubeSchedulerProfile(
        schedulerName="x",
        plugins=Plugins(multiPoint=PluginSet([PluginReference(name) for name in enabled])),
        pluginConfig=[PluginConfig("Limited", args)] if args else [],
    )


def test_a_plugin_gets_typed_arguments_and_the_handle():
    given = handle()
    built = build_profile(profile_with({"most": 3}), given, [Limited]).at(Point.FILTER)[-1]
    assert (built.most, built.handle) == (3, given)
    assert build_profile(profile_with(), given, [Limited]).at(Point.FILTER)[-1].most == 10


@pytest.mark.parametrize("args", [{"most": "many"}, {"least": 1}])
def test_errors_in_arguments_have_paths(args):
    with pytest.raises(ConfigurationError, match=r"pluginConfig\[0\].args"):
        build_profile(profile_with(args), handle(), [Limited])


class Needy(Plugin):
    name = "Needy"

    def __init__(self, weather):
        self.weather = weather

    def filter(self, cycle, pod, node):
        return None


class Failing(Plugin):
    name = "Failing"

    def __init__(self):
        raise RuntimeError("no luck today")

    def filter(self, cycle, pod, node):
        return None


class Exiting(Plugin):
    name = "Exiting"

    def __init__(self):
        self.leave()

    def leave(self):
        raise SystemExit(3)

    def filter(self, cycle, pod, node):
        return None


class SameName(Plugin):
    name = "NodeName"

    def filter(self, cycle, pod, node):
        return None


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Needy, "plugin 'Needy': __init__ requires an argument 'weather'"),
        (Failing, "plugin 'Failing' failed to start: RuntimeError: no luck today"),
        (Exiting, "plugin 'Exiting' failed to start: SystemExit: 3"),
        (SameName, "plugin name 'NodeName' is already used by an in-tree plugin"),
    ],
)
def test_the_error_names_a_plugin_that_cannot_be_built(plugin, message):
    with pytest.raises(PluginLoadError, match=message):
        default_profile("x", handle(), [plugin])


def test_frames_of_a_plugin_that_cannot_be_built_are_logged(caplog):
    with pytest.raises(PluginLoadError):
        default_profile("x", handle(), [Exiting])
    assert "in __init__\n    self.leave()" in caplog.text
    assert "in leave\n    raise SystemExit(3)" in caplog.text


class ByName(Plugin):
    name = "ByName"

    def sort_key(self, pod, queued_at):
        return pod.name

    def bind(self, cycle, pod, node_name):
        return None


def test_a_users_queue_sort_replaces_the_default_and_bind_plugins_run_first():
    profile = default_profile("x", handle(), [ByName])
    assert [plugin.name for plugin in profile.at(Point.QUEUE_SORT)] == ["ByName"]
    assert [plugin.name for plugin in profile.at(Point.BIND)] == ["ByName", "DefaultBinder"]


def test_plugin_functions_are_callable_and_take_a_name_or_weight():
    @filter_plugin(name="Tier")
    def tier(pod, node):
        return f"{pod} not on {node}"

    @score_plugin(weight=7)
    def cheap(pod, node):
        return len(pod) + len(node)

    assert (tier.name, tier("p", "n"), cheap("p", "n")) == ("Tier", "p not on n", 2)
    assert default_profile("x", handle(), [tier, cheap]).weights["cheap"] == 7


def test_functions_for_all_nodes_at_once():
    @filter_plugin
    def tier(pod, nodes):
        return Rejections.where(nodes.label_in("tier", ["control"]), "reserved")

    @score_plugin
    def roomy(pod, nodes):
        return np.minimum(nodes.allocatable("cpu") // 1000, 100)

    @filter_plugin
    def easy(pod, nodes):
        return None

    cluster = make_cluster(
        make_node("control", cpu="64", labels={"tier": "control"}),
        make_node("small", cpu="4"),
        make_node("big", cpu="32"),
        plugins=[tier, roomy, easy],
    )
    decision = cluster.decide(make_pod("p"))
    assert decision.scores.plugins["roomy"].tolist() == [4, 32]
    assert decision.diagnosis.status_of("control").message == "reserved"


def test_verdicts_of_a_function_with_sign_are_reused():
    asked = []

    @filter_plugin(sign=lambda pod: pod.labels.get("tier"))
    def tier(pod, node):
        asked.append(node.name)

    cluster = make_cluster(make_node("a"), make_node("b"), make_node("c"), plugins=[tier])
    sharing = Sharing(cluster.profile)
    for number in range(6):
        decide(cluster.profile, cluster.state, make_pod(f"p{number}"), random.Random(0), start=sharing.start)
    assert (sharing.used, len(asked)) == (5, 6)
    with pytest.raises(InvalidPlugin, match="weight is 0, expected a positive integer"):
        score_plugin(weight=0)(lambda pod, node: 1)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (["Node"], r"events yielded 'Node', expected an EventHint\("),
        ([EventHint(ClusterEvent("Nodde", Action.ADD))], r"events: 'Nodde' is not a kind: expected .* plural\.version"),
        (None, "events failed: TypeError"),
    ],
)
def test_invalid_events_are_rejected(events, message):
    class Odd(Plugin):
        name = "Odd"

        def events(self):
            return events

    with pytest.raises(InvalidPlugin, match=message):
        check_events(Odd())


def test_events_of_custom_resources_are_valid():
    class Racks(Plugin):
        name = "Racks"

        def events(self):
            return [EventHint(ClusterEvent("racks.v1.example.com", Action.ADD | Action.UPDATE)), EventHint(ALL_EVENTS)]

    check_events(Racks())


@pytest.mark.parametrize(
    "definition",
    [
        "@filter_plugin\ndef same(pod, node): ...",
        "class Same(Plugin):\n    name = 'same'\n    def filter(self, cycle, pod, node): ...",
    ],
)
def test_both_files_with_the_same_plugin_name_are_named(tmp_path, definition):
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text(f"from bayplan import Plugin, filter_plugin\n{definition}\n")
    with pytest.raises(PluginLoadError) as caught:
        Catalog(load_plugins(map(str, files)))
    assert str(caught.value) == (
        f"{files[1]}: plugin name 'same' is already used by another plugin, in {files[0]}: choose another name"
    )
