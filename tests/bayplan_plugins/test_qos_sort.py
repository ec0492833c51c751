"""QOSSort: upstream's table, the queue of a whole scheduler, and the contract."""

import pytest
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.testing import check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.qos_sort import QOSSort

SMALL, LARGE = {"cpu": "100m", "memory": "100Mi"}, {"cpu": "200m", "memory": "200Mi"}
RESOURCES = {"B": {}, "U": {"requests": SMALL, "limits": LARGE}, "G": {"requests": SMALL, "limits": SMALL}}


def pod(name, quality, priority=0, **fields):
    return make_pod(
        name, spec={"priority": priority, "containers": [{"name": "c", "resources": RESOURCES[quality]}]}, **fields
    )


@cases("case", vectors("qos_sort", "TestSortLess"))
def test_upstreams_cases(case):
    (priority, quality, at), (other_priority, other_quality, other_at) = case["pods"]
    left = QOSSort().sort_key(pod("left", quality, priority), float(at))
    right = QOSSort().sort_key(pod("right", other_quality, other_priority), float(other_at))
    assert (left < right) is case["first"]


@pytest.mark.parametrize(("quality", "name"), [("B", "BestEffort"), ("U", "Burstable"), ("G", "Guaranteed")])
def test_the_quality_of_service_is_read_of_the_spec_where_the_status_lacks_it(quality, name):
    assert pod("p", quality).qos_class == name


def test_amounts_are_compared_and_not_how_they_are_written():
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "0.5", "memory": "1024Mi"}}
    assert make_pod("p", spec={"containers": [{"name": "c", "resources": resources}]}).qos_class == "Guaranteed"
    nothing = {"requests": {"cpu": "0m", "memory": "0.0"}}
    assert make_pod("p", spec={"containers": [{"name": "c", "resources": nothing}]}).qos_class == "BestEffort"


def test_the_status_says_the_quality_of_service_as_the_api_server_found_it():
    assert pod("p", "G", status={"qosClass": "Burstable"}).qos_class == "Burstable"


def test_the_contract_holds():
    check_contract(QOSSort, objects=[make_node("n")], pods=[pod(each, each) for each in RESOURCES])


def test_a_cluster_with_the_plugin_decides():
    assert make_cluster(make_node("n"), plugins=[QOSSort]).decide(pod("p", "G")).node == "n"
