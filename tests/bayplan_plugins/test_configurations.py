"""Configurations that name these plugins: no flag is needed, and a plugin of the user's replaces one of them."""

import re
from pathlib import Path

import pytest
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.answers.replay.policies import setting_of
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import Catalog, build_profiles, parse_configuration, read_configuration
from bayplan.core.config.documents import Document
from bayplan.core.config.errors import ConfigurationError
from bayplan.core.config.loading import read_document_of
from bayplan.core.config.shipped_plugins import shipped_plugin, shipped_plugins
from bayplan.core.versions import DEFAULT_GATES
from bayplan.plugin import Plugin
from bayplan.testing import make_cluster, make_node, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SORT = "queueSort: {enabled: [{name: QOSSort}], disabled: [{name: '*'}]}"
BOTH = f"profiles: [{{plugins: {{score: {{enabled: [{{name: PodState}}]}}, {SORT}}}}}]"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text(f"{HEAD}{BOTH}\n", encoding="utf-8")
    return path


def test_every_plugin_is_found_by_its_name():
    names = shipped_plugins().keys()
    assert {name: shipped_plugin(name).name for name in names} == {name: name for name in names}
    assert names


def test_the_page_has_a_row_for_every_plugin():
    page = (Path(__file__).parents[2] / "docs" / "scheduler-plugins.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    assert shipped_plugins().keys() <= {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_a_file_needs_no_flag(file):
    loaded = read_configuration(file)
    assert (loaded.plugins, loaded.warnings) == ([], [])


def test_a_cluster_with_such_a_file_decides(file):
    cluster = make_cluster(
        make_node("a"), make_node("b"), make_pod("p", node="b", terminating=True), configuration=file
    )
    assert cluster.decide(make_pod("new")).node == "b"


def test_a_plugin_of_the_users_replaces_one(file):
    class Mine(Plugin):
        name = "PodState"

        def score(self, cycle, pod, node):
            return 100 if node.name == "a" else 0

    cluster = make_cluster(
        make_node("a"), make_node("b"), make_pod("p", node="b", terminating=True), configuration=file, plugins=[Mine]
    )
    assert cluster.decide(make_pod("new")).node == "a"
    assert Catalog([Mine]).other("PodState") is Mine


def test_a_misspelled_name_is_told():
    with pytest.raises(ConfigurationError, match="did you mean 'PodState'"):
        read_lacking("Podstate")


def read_lacking(name):
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"plugins": {"score": {"enabled": [{"name": name}]}}}
    return read_document_of(Document({**document, "profiles": [profile]}, ""), Catalog())


def test_unknown_arguments_of_a_plugin_are_told():
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    arguments = [{"name": "PodState", "args": {"most": 3}}]
    with pytest.raises(ConfigurationError, match="takes no arguments"):
        parse_configuration({**document, "profiles": [{"pluginConfig": arguments}]})


def test_a_recording_names_no_plugin_that_a_replay_would_have_to_be_given(file):
    loaded = read_configuration(file)
    assert setting_of(file.read_text(encoding="utf-8"), DEFAULT_GATES, (), loaded.plugins).plugins == ()


@cases("version, point, names, arguments", vectors("configurations", "published"))
def test_published_forms_build_profiles(version, point, names, arguments):
    disabled = [{"name": "*"}] if point == "queueSort" else []
    document = {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {point: {"enabled": [{"name": name} for name in names], "disabled": disabled}},
                "pluginConfig": [{"name": names[0], "args": arguments}] if arguments else [],
            }
        ],
    }
    (profile,) = build_profiles(parse_configuration(document), OfflineHandle(ClusterState())).values()
    assert set(names) <= {plugin.name for plugin in profile.every()}
