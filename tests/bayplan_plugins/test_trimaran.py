"""Trimaran's plugins: contracts, columns that agree with the arithmetic of one node, and changes of the cluster."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bayplan_plugins.load_clusters import END, WATCHER, Loaded, pod_of

from bayplan.testing import check_contract, make_node, make_pod
from bayplan_plugins.trimaran.load_variation_risk_balancing import (
    LoadVariationRiskBalancing,
    LoadVariationRiskBalancingArgs,
)
from bayplan_plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment, LowRiskOverCommitmentArgs
from bayplan_plugins.trimaran.peaks import Peaks, PeaksArgs, PowerModel
from bayplan_plugins.trimaran.statistics import beta_probability, fitted, max_variance
from bayplan_plugins.trimaran.target_load_packing import TargetLoadPacking, TargetLoadPackingArgs

FEW = settings(max_examples=25, derandomize=True, deadline=None)
PLUGINS = {
    TargetLoadPacking: {},
    LoadVariationRiskBalancing: {},
    LowRiskOverCommitment: {},
    Peaks: {"NodePowerModel": {"a": {"k0": 400, "k1": -90, "k2": -0.07}, "b": {"k0": 300, "k1": -60, "k2": -0.05}}},
}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_the_contract_holds(plugin):
    loads = {"end": END, "nodes": {"a": [40.0, 40.0, 5.0, 20.0, 3.0], "b": [70.0, 70.0, 9.0, 50.0, 2.0]}}
    report = {
        "apiVersion": "bayplan.dev/v1alpha1",
        "kind": "LoadReport",
        "metadata": {"name": "kubernetesmetricsserver"},
    }
    objects = [
        make_node("a"),
        make_node("b"),
        make_pod("there", node="a", cpu="1"),
        ("loadreports.v1alpha1.bayplan.dev", report | loads),
    ]
    check_contract(plugin, PLUGINS[plugin], objects=objects, pods=[make_pod("p", cpu="500m")], examples=40)


def started(name, node, at, cpu=500):
    spec = {"containers": [{"name": "c", "resources": {"limits": {"cpu": f"{cpu}m"}}}]}
    moment = {} if at is None else {"startTime": np.datetime_as_string(np.datetime64(at, "s"), timezone="UTC")}
    return make_pod(name, node=node, spec=spec, status=moment)


def test_pods_that_are_too_new_for_the_measurements_count_by_what_they_will_use():
    pods = [started("old", "a", END - 61), started("new", "a", END - 10), started("assumed", "a", None)]
    cluster = Loaded(TargetLoadPacking, TargetLoadPackingArgs(watcherAddress=WATCHER), make_node("a", cpu="4"), *pods)
    cluster.report({"a": [["CPU", "AVG", 5]]})
    # 5 % is measured, and 2 * 500 of 4000 millicores are not: 30 % with the pod's none.
    assert cluster.scores(pod_of([0, 0])) == [85]
    cluster.report({"a": [["CPU", "AVG", 17.5]]}, end=END + 60)
    assert cluster.scores(pod_of([0, 0])) == [85]
    cluster.state.remove_pod("default-assumed")
    assert cluster.scores(pod_of([0, 0])) == [66]
    cluster.report({"a": [["CPU", "AVG", 5]]}, end=END)
    assert cluster.scores(pod_of([0, 0])) == [66]


def test_what_a_pod_will_use_is_predicted_of_its_limits_requests_or_the_default():
    def predicted(*containers, **spec):
        plugin = Loaded(TargetLoadPacking, TargetLoadPackingArgs(watcherAddress=WATCHER), make_node("a")).plugin
        made = [{"name": f"c{at}", "resources": resources} for at, resources in enumerate(containers)]
        return plugin.sign(make_pod("p", spec={"containers": made, **spec}))

    assert predicted({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}) == 2000
    assert predicted({"requests": {"cpu": "333m"}}) == 500
    assert predicted({}, {"requests": {"memory": "1Gi"}}) == 2000
    assert predicted({}, overhead={"cpu": "250m"}) == 1250


def test_a_negative_multiplier_is_used_as_it_is():
    args = TargetLoadPackingArgs(watcherAddress=WATCHER, defaultRequestsMultiplier="-1.5")
    assert Loaded(TargetLoadPacking, args, make_node("a")).plugin.sign(make_pod("p", cpu="333m")) == -500


@pytest.mark.parametrize(
    ("plugin", "metrics", "scores"),
    [
        (TargetLoadPacking, [["CPU", "AVG", 10], ["Memory", "AVG", math.nan]], [55, 55]),
        (TargetLoadPacking, [["CPU", "AVG", 10], ["CPU", "STD", math.inf]], [55, 55]),
        (TargetLoadPacking, [["CPU", "AVG", math.nan], ["Memory", "AVG", 10]], [0, 55]),
        (LoadVariationRiskBalancing, [["CPU", "AVG", 10], ["Memory", "AVG", math.nan]], [0, 95]),
        (LowRiskOverCommitment, [["CPU", "AVG", 10], ["Memory", "STD", math.nan]], [0, 100]),
    ],
)
def test_a_value_that_is_no_number_costs_those_that_read_it(plugin, metrics, scores):
    nodes = [make_node(name, cpu="4", memory="4Gi") for name in ("a", "b")]
    cluster = Loaded(plugin, plugin.arguments(watcherAddress=WATCHER), *nodes)
    cluster.report({"a": metrics, "b": [["CPU", "AVG", 10]]})
    assert cluster.scores(pod_of([0, 0] if plugin is TargetLoadPacking else [4, 1])) == scores


def test_powers_that_differ_by_more_than_64_bits_hold_are_put_in_order():
    made = Loaded(Peaks, PeaksArgs(WatcherAddress=WATCHER, **PLUGINS[Peaks]), make_node("a"))
    raw = np.array([-(2**63) + 1, 2**63 - 1, 0])
    assert made.plugin.normalize_scores(None, None, raw, None).tolist() == [100, 0, 50]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (None, "NODE_POWER_MODEL is not set"),
        ("missing", "No such file or directory"),
        ('{"a": 10}', "Expected `object`, got `int`"),
        ('{"a": {"k3": 1}}', "unknown field `k3`"),
    ],
)
def test_power_models_that_cannot_be_read_are_an_error(models, message, monkeypatch, tmp_path):
    monkeypatch.delenv("NODE_POWER_MODEL", raising=False)
    if models is not None:
        path = tmp_path / "models.json"
        monkeypatch.setenv("NODE_POWER_MODEL", str(path))
        if models != "missing":
            path.write_text(models, encoding="utf-8")
    (fault,) = PeaksArgs(watcherAddress=WATCHER).faults()
    assert message in str(fault)


def test_power_models_are_read_from_a_file(monkeypatch, tmp_path):
    path = tmp_path / "models.json"
    path.write_text('{"a": {"k0": 1, "k1": 2, "k2": 0.5}}', encoding="utf-8")
    monkeypatch.setenv("NODE_POWER_MODEL", str(path))
    args = PeaksArgs(WatcherAddress=WATCHER)
    assert (list(args.faults()), args.models()) == ([], {"a": PowerModel(1, 2, 0.5)})


percents = st.floats(-20, 150) | st.just(0.0) | st.just(100.0)


@FEW
@given(percents, percents, st.integers(0, 6000), st.integers(1, 100))
def test_packing_is_as_upstream_computes_it(load, other, request, target):
    args = TargetLoadPackingArgs(watcherAddress=WATCHER, targetUtilization=target)
    cluster = Loaded(TargetLoadPacking, args, make_node("a", cpu="4"), make_node("b", cpu="6"))
    cluster.report({"a": [["CPU", "AVG", load]], "b": [["CPU", "Latest", other]]})
    pod = pod_of([request, 0])
    assert cluster.scores(pod) == [packing(load, 4000, request, target), packing(other, 6000, request, target)]


def packing(load, capacity, request, target):
    predicted = 100 * (load / 100 * capacity + request) / capacity
    if predicted > 100:
        return 0
    if predicted > target:
        score = target * (100 - predicted) / (100 - target)
    else:
        score = (100 - target) * predicted / target + target
    return min(max(int(math.copysign(math.floor(abs(score) + 0.5), score)), 0), 100)


@FEW
@given(percents, percents, st.integers(0, 6000), st.floats(-1, 3), st.floats(-1, 3))
def test_risk_balancing_is_as_upstream_computes_it(average, deviation, request, margin, sensitivity):
    args = LoadVariationRiskBalancingArgs(
        watcherAddress=WATCHER, safeVarianceMargin=margin, safeVarianceSensitivity=sensitivity
    )
    cluster = Loaded(LoadVariationRiskBalancing, args, make_node("a", cpu="4"), make_node("b"))
    cluster.report({"a": [["CPU", "AVG", average], ["CPU", "STD", deviation]]})
    mean = min(max((min(max(average * 4000 / 100, 0), 4000) + request) / 4000, 0), 1)
    spread = min(max(deviation * 4000 / 100, 0), 4000) / 4000
    margin, sensitivity = (1.0 if value < 0 else value for value in (margin, sensitivity))
    spread = min(spread ** (1 / sensitivity) if sensitivity else float(spread == 1), math.inf) * margin
    expected = math.floor((1 - (mean + min(max(spread, 0), 1)) / 2) * 100 + 0.5)
    assert cluster.scores(pod_of([request, 0])) == [expected, 0]


@FEW
@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.001, 0.999))
def test_probabilities_of_whole_parameters_are_binomial_sums(alpha, beta, x):
    trials = alpha + beta - 1
    expected = sum(math.comb(trials, hits) * x**hits * (1 - x) ** (trials - hits) for hits in range(alpha, trials + 1))
    found = beta_probability(np.array([x]), np.array([float(alpha)]), np.array([float(beta)]))[0]
    assert found == pytest.approx(expected, abs=1e-9)


@FEW
@given(st.floats(0.01, 0.99), st.floats(0.001, 0.98))
def test_fitted_distributions_have_their_moments(mean, share):
    variance = max_variance(np.array([mean])) * share
    alpha, beta = fitted(np.array([mean]), variance)
    both = alpha + beta
    assert alpha / both == pytest.approx([mean])
    assert alpha * beta / (both**2 * (both + 1)) == pytest.approx(variance)


@FEW
@given(st.lists(st.tuples(percents, st.floats(0, 60)), min_size=3, max_size=3), st.integers(0, 3), st.integers(1, 4000))
def test_the_nodes_of_a_cluster_are_scored_alone_and_together_alike(loads, pods, request):
    names = ("a", "b", "c")
    there = [
        pod_of([500 * (at + 1), 2**30], name=f"{name}{at}", node=name) for at in range(pods) for name in names[at:]
    ]
    new, args = pod_of([request, 2**28]), LowRiskOverCommitmentArgs(watcherAddress=WATCHER)
    measured = {
        name: [["CPU", "AVG", average], ["CPU", "STD", deviation], ["Memory", "AVG", average / 2]]
        for name, (average, deviation) in zip(names, loads, strict=True)
    }

    def scores(*some):
        mine = [pod for pod in there if pod.node_name in some]
        cluster = Loaded(LowRiskOverCommitment, args, *(make_node(name) for name in some), *mine)
        cluster.report(measured)
        return cluster.scores(new)

    together = scores(*names)
    assert together == [scores(name)[0] for name in names]
    assert all(0 <= score <= 100 for score in together)
