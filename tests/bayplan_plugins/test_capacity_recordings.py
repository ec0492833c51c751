"""Random clusters with quotas, and what the compiled scheduler of scheduler-plugins decides there.

`recordings/capacity_scheduling.jsonl.gz` has 60 scenarios, one a line: nodes, bound and nominated pods, quotas and
disruption budgets, the pods to place in order, and a step for each of these. A step has what PreFilter says, the
reasons by node, or the feasible nodes, of which the first one by name is taken. After a preemption the scenario ends;
`acceptable` has all answers that were seen. Victims that are terminating already aren't named in them.
"""

import gzip
import json
from pathlib import Path

import pytest
from quota_clusters import elastic_quota, quota_cluster

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_info import PodInfo

FILE = Path(__file__).parent / "recordings" / "capacity_scheduling.jsonl.gz"
RECORDINGS = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]
FAULTS = {"capacity-34": "no corresponding pod p3 in pods of node n0"}
"""Scenarios in which the compiled scheduler fails: it removes a pod twice if nominated pods count."""


def pod_of(document, node=""):
    spec = document["spec"] | ({"nodeName": node} if node else {})
    return PodInfo(convert(POD.type, document | {"spec": spec}))


def cluster_of(scenario, folder):
    nodes = [convert(NODE.type, each) for each in scenario["nodes"]]
    quotas = [
        elastic_quota(each["namespace"], **{bound: each[bound] for bound in ("min", "max") if bound in each})
        for each in scenario["quotas"]
    ]
    budgets = [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **each} for each in scenario["budgets"]]
    pods = [pod_of(each) for each in scenario["pods"]]
    made = quota_cluster(folder, *nodes, *quotas, *budgets, *(each for each in pods if each.node_name))
    for each in pods:
        if not each.node_name:
            made.state.nominations.add(each)
    return made


def place(cluster, pod):
    cluster.state.nominations.remove(pod.uid)
    cluster.state.set_pod(pod)
    cluster.state.objects[POD].set(pod.key, pod)


def said(decision, names):
    """A decision as a step has it. `names`: of the rows of nodes."""
    diagnosis, found = decision.diagnosis, {"pod": decision.pod.key, "outcome": decision.outcome.value}
    if len(decision.feasible):
        return found | {"feasible": sorted(names[row] for row in decision.feasible.tolist())}
    if diagnosis.pre_filter_message:
        return found | {"preFilter": diagnosis.pre_filter_message}
    rejected = {names[position]: sorted(status.reasons) for position, status in diagnosis.verdicts.rejected()}
    return found | {"rejected": rejected}


def expected(step, pod):
    """A step as it is compared. A pod that is nominated to a feasible node goes there, whatever else is feasible."""
    found = {key: value for key, value in step.items() if key not in {"acceptable", "postFilter"}}
    if "rejected" in found:
        found["rejected"] = {node: sorted(reasons) for node, reasons in found["rejected"].items()}
    if "feasible" in found:
        found.pop("rejected", None)
        if pod.nominated_node_name in found["feasible"]:
            found["feasible"] = [pod.nominated_node_name]
    return found


@pytest.mark.parametrize("recorded", RECORDINGS, ids=lambda each: each["scenario"]["name"])
def test_a_recorded_scenario_is_decided_alike(recorded, tmp_path):
    scenario = recorded["scenario"]
    cluster = cluster_of(scenario, tmp_path)
    pending = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in scenario["pending"]}
    for step in recorded["decisions"]:
        pod = pod_of(pending[step["pod"]])
        decision = cluster.decide(pod)
        assert said(decision, cluster.state.nodes.table.names) == expected(step, pod)
        if "feasible" in step:
            place(cluster, pod_of(pending[step["pod"]], step["feasible"][0]))
            continue
        after = step.get("postFilter", "")
        if after and after == FAULTS.get(scenario["name"]):
            break
        victims = sorted(victim.key for victim in decision.victims if not victim.terminating)
        assert {"nominated": decision.nominated_node or "", "victims": victims} in step["acceptable"]
        if not decision.nominated_node:
            assert decision.message.rstrip(".").endswith(after.rstrip("."))
