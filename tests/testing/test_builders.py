"""Builders of pods, and decisions with failing plugins."""

import inspect
import subprocess
import sys

from bayplan import Plugin
from bayplan.core.framework.checks import _METHODS
from bayplan.testing import make_cluster, make_node, make_pod


class Broken(Plugin):
    name = "Broken"

    def filter(self, cycle, pod, node):
        raise LookupError("no such team")


def test_requests_of_any_resource():
    pod = make_pod("p", requests={"cpu": "250m", "memory": "1Gi", "example.com/gpu": "2"})
    assert pod.requested == {"cpu": 250, "memory": 1 << 30, "example.com/gpu": 2}
    assert pod.spec.containers[0].resources.limits == {"example.com/gpu": "2"}
    assert make_pod("p", cpu="1", requests={"memory": "1Gi"}).requested == {"cpu": 1000, "memory": 1 << 30}


def test_node_is_none_if_no_node_is_feasible():
    cluster = make_cluster(make_node("a", cpu="1"))
    assert cluster.decide(make_pod("p", cpu="2")).node is None
    assert cluster.place(make_pod("q", cpu="1")).node == "a"


def test_decision_shows_the_message_of_a_plugin_that_raises():
    decision = make_cluster(make_node("a"), plugins=[Broken]).decide(make_pod("p"))
    assert decision.node is None
    assert repr(decision) == (
        '<Decision for default/p: error: running "Broken" filter plugin: LookupError: no such team>'
    )


def test_help_of_plugin_lists_every_extension_point():
    program = "import bayplan, pydoc; print(pydoc.render_doc(bayplan.Plugin, renderer=pydoc.plaintext))"
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    for name, parameters in _METHODS.items():
        assert f"def {name}({', '.join(('self', *parameters))}) -> " in text
    assert len(inspect.getdoc(Plugin).split("def ")) - 1 == len(_METHODS)
