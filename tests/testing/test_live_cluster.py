"""LiveCluster: a cluster for users' tests, with a scheduler over HTTP, in a separate thread."""

import threading

import pytest
import yaml

from bayplan import Plugin, Status, filter_plugin
from bayplan.client import ApiError
from bayplan.core.api.kinds import NODE
from bayplan.core.config import PluginLoadError
from bayplan.testing import LiveCluster, make_node, make_pod
from bayplan.testing.documents import as_sent

pytest_plugins = ["bayplan.testing.fixtures"]


@filter_plugin
def tier(pod, node):
    return None if node.labels.get("tier") == pod.labels.get("tier") else "another tier"


class Fails(Plugin):
    name = "fails"

    def __init__(self):
        raise OSError("no disk")

    def filter(self, cycle, pod, node):
        return Status.unschedulable("never")


def test_pod_is_bound_to_a_node_that_the_plugin_accepts(live_cluster):
    cluster = live_cluster(tier, nodes=[make_node("a", labels={"tier": "web"}), make_node("b")])
    cluster.create(make_pod("web", labels={"tier": "web"}), make_pod("plain"))
    assert (cluster.wait_until_bound("web"), cluster.wait_until_bound("plain")) == ("a", "b")
    cluster.until(lambda: cluster.events_of("web", "Scheduled"))
    assert cluster.events_of("web", "Scheduled") == ["Successfully assigned default/web to a"]


def test_unschedulable_pod_is_bound_once_a_node_is_feasible(live_cluster):
    cluster = live_cluster(tier, nodes=1)
    cluster.create(make_pod("web", labels={"tier": "web"}))
    assert cluster.wait_until_rejected("web").startswith("0/1 nodes are available: 1 another tier.")
    cluster.patch(NODE, "node-0", {"metadata": {"labels": {"tier": "web"}}})
    assert cluster.wait_until_bound("web") == "node-0"


def test_timeout_reports_why_the_pod_is_pending(live_cluster):
    cluster = live_cluster(tier, nodes=1)
    cluster.create(make_pod("web", labels={"tier": "web"}))
    cluster.wait_until_rejected("web")
    with pytest.raises(AssertionError, match="another tier"):
        cluster.wait_until_bound("web", within=0.01)


def test_configuration_selects_the_plugins(tmp_path, live_cluster):
    file = tmp_path / "scheduler.yaml"
    plugins = {"multiPoint": {"enabled": [{"name": "tier"}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "strict", "plugins": plugins}, {"schedulerName": "default-scheduler"}],
    }
    file.write_text(yaml.safe_dump(document))
    cluster = live_cluster(tier, nodes=1, configuration=file)
    cluster.create(
        make_pod("free", labels={"tier": "web"}),
        make_pod("bound-to-wait", labels={"tier": "web"}, scheduler_name="strict"),
    )
    assert cluster.wait_until_bound("free") == "node-0"
    assert "another tier" in cluster.wait_until_rejected("bound-to-wait")


def test_objects_are_created_and_deleted_in_every_form(live_cluster):
    cluster = live_cluster(nodes=1)
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    pod = make_pod("web")
    cluster.create(plain, make_node("late"), pod)
    cluster.until(lambda: "late" in cluster.observer.nodes)
    cluster.delete(pod)
    cluster.until(lambda: "default/web" not in cluster.observer.pods)
    cluster.delete(plain)
    with pytest.raises(ApiError, match="404"):
        cluster.delete(plain)


@pytest.mark.parametrize("wrong", [{"apiVersion": "v1", "kind": "Potato", "metadata": {"name": "p"}}, "a pod", None])
def test_other_values_than_objects_are_rejected(wrong):
    with pytest.raises(
        TypeError, match=r"no such kind: v1 Potato|expected a pod .PodInfo., a typed object or a document"
    ):
        as_sent(wrong)


def test_a_plugin_that_fails_to_start_fails_the_test_and_leaves_nothing_behind():
    before = threading.active_count()
    with pytest.raises(PluginLoadError, match="'fails' failed to start: OSError: no disk"), LiveCluster(Fails):
        raise AssertionError("never")
    assert threading.active_count() == before


def test_callers_get_an_error_when_the_cluster_has_ended():
    with LiveCluster(nodes=1) as cluster:
        with pytest.raises(RuntimeError, match="the cluster has ended"):
            cluster.until(cluster._stop.set)
        with pytest.raises(RuntimeError, match="the cluster has ended"):
            cluster.create(make_pod("late"))


def test_two_live_clusters_run_at_once(live_cluster):
    one, other = live_cluster(nodes=1), live_cluster(nodes=[make_node("elsewhere")])
    for cluster in (one, other):
        cluster.create(make_pod("web"))
    assert (one.wait_until_bound("web"), other.wait_until_bound("web")) == ("node-0", "elsewhere")
    assert one.kubeconfig() != other.kubeconfig()


def test_a_cluster_in_memory_is_a_fixture_too(offline_cluster):
    assert offline_cluster(make_node("a"), plugins=[tier]).decide(make_pod("web")).node == "a"
