"""Trimaran: upstream's tables."""

import math

import numpy as np
import pytest
from msgspec.structs import replace
from tests.bayplan_plugins.load_clusters import WATCHER, Loaded, containers, load, pod_of
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.plugin import NodeColumn
from bayplan.testing import make_node, make_pod
from bayplan_plugins.go_arithmetic import rounded
from bayplan_plugins.trimaran.load_variation_risk_balancing import (
    LoadVariationRiskBalancing,
    LoadVariationRiskBalancingArgs,
    Risk,
)
from bayplan_plugins.trimaran.low_risk_over_commitment import (
    Commitment,
    LowRiskOverCommitment,
    LowRiskOverCommitmentArgs,
    _sum_of,
)
from bayplan_plugins.trimaran.peaks import Peaks, PeaksArgs, PowerModel
from bayplan_plugins.trimaran.requests import demand
from bayplan_plugins.trimaran.statistics import MEBI, beta_probability, fitted, max_variance, mean_and_deviation
from bayplan_plugins.trimaran.target_load_packing import TargetLoadPacking, TargetLoadPackingArgs

NODE = make_node("node-1", cpu="1", memory="1Gi")


def table(name):
    return vectors("trimaran", name)


def loaded(plugin, args, metrics):
    cluster = Loaded(plugin, args, NODE)
    if metrics is not None:
        cluster.report({"node-1": metrics} if metrics else {})
    return cluster


@cases("case", table("TestTargetLoadPackingScoring"))
def test_target_load_packing(case):
    args = TargetLoadPackingArgs(watcherAddress=WATCHER, defaultRequests={})
    assert loaded(TargetLoadPacking, args, case["metrics"]).scores(pod_of(*case["pod"])) == [case["score"]]


@cases("case", table("TestScore"))
def test_load_variation_risk_balancing(case):
    args = LoadVariationRiskBalancingArgs(watcherAddress=WATCHER)
    assert loaded(LoadVariationRiskBalancing, args, case["metrics"]).scores(pod_of(*case["pod"])) == [case["score"]]


@cases("case", table("TestComputeScore"))
def test_the_risk_of_a_load(case):
    average, deviation = case["used"]
    capacity = np.array([case.get("capacity", 100.0)])
    used = [np.clip(np.array([value]), 0, capacity) for value in (average, deviation)]
    found = Risk(case["margin"], case["sensitivity"]).scores(*mean_and_deviation(*used, 10, capacity))
    assert rounded(np.where(capacity <= 0, 0.0, found)).tolist() == [case["score"]]


@cases("case", table("TestLowRiskOverCommitment_Score"))
def test_low_risk_over_commitment(case):
    args = LowRiskOverCommitmentArgs(watcherAddress=WATCHER)
    assert loaded(LowRiskOverCommitment, args, case["metrics"]).scores(pod_of(*case["pod"])) == [case["score"]]


@cases("case", table("TestLowRiskOverCommitment_computeRisk"))
def test_the_risk_of_a_commitment(case):
    plugin = loaded(LowRiskOverCommitment, LowRiskOverCommitmentArgs(watcherAddress=WATCHER), None).plugin
    commitment = Commitment(*(np.array([float(each)]) for each in case["commitment"]))
    average, deviation = (np.array([float(each)]) for each in case["load"])
    unit = MEBI if case["resource"] == "memory" else 1.0
    assert plugin.risk(case["resource"], commitment, unit, average, deviation).tolist() == [case["risk"]]


@cases("case", table("TestBetaDistribution_MatchMoments"))
def test_distributions_are_found_by_their_moments(case):
    mean, square = (np.array([float(each)]) for each in case["moments"])
    alpha, beta = fitted(mean, square - mean * mean)
    assert bool(np.isfinite(alpha[0]) and np.isfinite(beta[0])) is case["valid"]
    if case["valid"]:
        assert [alpha[0], beta[0]] == pytest.approx([1, 1])


@cases("case", table("TestBetaDistribution_DistributionFunction"))
def test_probabilities(case):
    alpha, beta = (np.array([float(each)]) for each in case["parameters"])
    assert beta_probability(np.array([case["x"]]), alpha, beta)[0] == pytest.approx(case["probability"], abs=1e-6)


@cases("case", table("TestGetMaxVariance"))
def test_variances(case):
    assert max_variance(np.array([float(case["mean"])]))[0] == pytest.approx(case["variance"], abs=1e-6)


@cases("case", table("TestCreateResourceStats"))
def test_metrics_become_statistics(case):
    found = load(vectors("trimaran", "stats")[case["metrics"]])
    average, deviation = (getattr(found, f"{case['resource']}_{field}") for field in ("average", "deviation"))
    if case["wanted"] is None:
        assert average is None
    else:
        assert [average * case["capacity"] / 100, deviation * case["capacity"] / 100] == case["wanted"]


def pod_with(case, field):
    made = [containers(*amounts, fields=(field,)) for amounts in (case["containers"], [case["init"]])]
    spec = {"containers": made[0], "initContainers": made[1], "overhead": {"cpu": f"{case['overhead']}m"}}
    return make_pod("p", spec=spec)


@cases("case", table("TestGetResourceRequested"))
def test_requests(case):
    assert list(demand(pod_with(case, "requests"))[:2]) == case["wanted"]


@cases("case", table("TestGetResourceLimits"))
def test_limits(case):
    assert list(demand(pod_with(case, "limits"))[2:]) == case["wanted"]


@cases("case", table("TestGetMuSigma"))
def test_means_and_deviations(case):
    request, average, deviation = case["stats"]
    found = mean_and_deviation(
        np.array([float(average)]), np.array([float(deviation)]), request, np.array([float(case["capacity"])])
    )
    assert [found[0].item(), found[1].item()] == case["wanted"]


@cases("case", table("TestGetNodeRequestsAndLimits"))
def test_requests_and_limits_of_nodes(case):
    def pod(at, limits):
        main = containers([1000, 512], [500, 1024])
        for container, (cpu, memory) in zip(main, limits, strict=True):
            container["resources"]["limits"] = {"cpu": f"{cpu}m", "memory": str(memory)}
        init = {"name": "i", "resources": {"requests": {"cpu": "100m", "memory": "2048"}}}
        init["resources"]["limits"] = {"cpu": "500m", "memory": "2048"}
        return make_pod(f"p{at}", node="n", spec={"containers": main, "initContainers": [init]})

    *there, new = [pod(at, limits) for at, limits in enumerate(case["pods"])]
    cpu, memory = case["node"]
    args = LowRiskOverCommitmentArgs(watcherAddress=WATCHER)
    nodes = Loaded(LowRiskOverCommitment, args, make_node("n", cpu=f"{cpu}m", memory=str(memory)), *there).state.nodes
    sums = [NodeColumn(_sum_of(index), np.int64).of(nodes) for index in range(4)]
    wanted = demand(new)
    for at, resource in enumerate(("cpu", "memory")):
        commitment = Commitment.of(sums[at], sums[at + 2], (wanted[at], wanted[at + 2]), nodes.allocatable(resource))
        assert [each.item() for each in commitment[:4]] == case["wanted"][at]


def peaks(metrics):
    model = PowerModel(**vectors("trimaran", "model"))
    return loaded(Peaks, PeaksArgs(WatcherAddress=WATCHER, NodePowerModel={"node-1": model}), metrics), model


@cases("case", table("TestPeaksScore"))
def test_peaks(case):
    cluster, model = peaks(case["metrics"])
    pod = pod_of()
    if case["pod"] is not None:
        fields = {
            field: {"cpu": f"{amount}m"}
            for field, amount in zip(("requests", "limits"), case["pod"], strict=True)
            if amount is not None
        }
        pod = make_pod("p", spec={"containers": [{"name": "c", "resources": fields}]})
    growth = model.k1 * (math.exp(model.k2 * 100) - math.exp(0)) * 10**15
    assert cluster.scores(pod) == [int(growth) if case["grows"] else 0]


@cases("case", table("TestPeaksNormalizeScore"))
def test_peaks_turns_scores_around(case):
    cluster, _ = peaks(None)
    assert cluster.plugin.normalize_scores(None, None, np.array(case["scores"]), None).tolist() == case["wanted"]


def test_metrics_are_those_of_the_node_of_their_name():
    args = TargetLoadPackingArgs(watcherAddress=WATCHER)
    cluster = Loaded(TargetLoadPacking, args, NODE, replace(NODE, metadata=replace(NODE.metadata, name="other")))
    cluster.report({"other": [["CPU", "Latest", 10]]})
    assert cluster.scores(make_pod("p", cpu="0")) == [0, 55]
