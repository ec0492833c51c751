"""Random clusters, and what plugins of scheduler-plugins decide there, compiled for Kubernetes 1.35.4.

A file of `recordings/` has 60 scenarios, one a line: nodes, bound and nominated pods, the objects that a plugin reads,
disruption budgets, the pods to place in order, and a step for each of these. A step has what PreFilter says, the
reasons by node, or the feasible nodes, of which the first one by name is taken. After a preemption the scenario ends;
`acceptable` has all answers that were seen. Victims that are terminating already aren't named in them.
"""

import gzip
import json
from pathlib import Path

from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_info import PodInfo

FOLDER = Path(__file__).parent / "recordings"


def recorded(name):
    """The recorded scenarios of a plugin, with their steps."""
    lines = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def pod_of(document, node=""):
    spec = document["spec"] | ({"nodeName": node} if node else {})
    return PodInfo(convert(POD.type, document | {"spec": spec}))


def objects_of(scenario):
    """The nodes, the bound pods and the budgets."""
    yield from (convert(NODE.type, each) for each in scenario["nodes"])
    yield from ({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **each} for each in scenario["budgets"])
    yield from (pod for pod in map(pod_of, scenario["pods"]) if pod.node_name)


def check(scenario, steps, cluster, fault=""):
    """Decide the pods of a scenario as its steps say. `fault`: after which upstream can't be compared."""
    for each in map(pod_of, scenario["pods"]):
        if not each.node_name:
            cluster.state.nominations.add(each)
    pending = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in scenario["pending"]}
    for step in steps:
        pod, after = pod_of(pending[step["pod"]]), step.get("postFilter", "")
        decision = cluster.decide(pod)
        assert said(decision, cluster.state.nodes.table.names) == expected(step, pod)
        if "feasible" in step:
            place(cluster, pod_of(pending[step["pod"]], step["feasible"][0]))
            continue
        if after and after == fault:
            return
        victims = sorted(victim.key for victim in decision.victims if not victim.terminating)
        assert {"nominated": decision.nominated_node or "", "victims": victims} in step["acceptable"]
        if not decision.nominated_node:
            assert decision.message.rstrip(".").endswith(after.rstrip("."))


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
