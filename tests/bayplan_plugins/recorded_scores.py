"""Random clusters, and what single plugins of scheduler-plugins say of them, compiled for Kubernetes 1.35.4.

A file of `recordings/` has 60 scenarios of a plugin, one a line. A scenario has its arguments, nodes, pods, custom
objects, loads, and the pods to place in order; each goes to its best node, the first one by name. A step has the
reasons by node, and the scores of the others. Where upstream fails the pod, the step has the `error` instead, and the
scores before they are normalized.
"""

import json

from recorded_scenarios import place, pod_of
from tests.bayplan_plugins.load_clusters import report_of

from bayplan.core.api.kinds import NODE
from bayplan.core.api.objects import convert
from bayplan.testing import make_cluster
from bayplan_plugins.trimaran.loads import LOAD_REPORTS
from bayplan_plugins.trimaran.sources import LoadReport, Metric

SERVED = {
    "AppGroup": "appgroups.v1alpha1.appgroup.diktyo.x-k8s.io",
    "NetworkTopology": "networktopologies.v1alpha1.networktopology.diktyo.x-k8s.io",
    "PodGroup": "podgroups.v1alpha1.scheduling.x-k8s.io",
    "SeccompProfile": "seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io",
}

SORTING = {"QOSSort", "TopologicalSort"}
NORMALIZING = {"Peaks", "NodeResourcesAllocatable", "NodeMetadata", "PodState", "NetworkOverhead", "SySched"}
"""Plugins whose scores depend on those of the other nodes."""


def alone(plugin, arguments, folder):
    """A configuration in which only this plugin decides."""
    names = [plugin, "DefaultBinder"] if plugin in SORTING else [plugin, "PrioritySort", "DefaultBinder"]
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": plugin, "args": arguments}] if arguments else []}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = folder / "scheduler.yaml"
    path.write_text(json.dumps(kind | {"profiles": [profile]}), encoding="utf-8")
    return path


def objects_of(scenario):
    """The custom objects of a scenario."""
    return [(SERVED[each["kind"]], each) for each in scenario.get("objects", ())]


def cluster_of(plugin, scenario, folder):
    """The cluster of a scenario, with the plugin alone."""
    objects = objects_of(scenario)
    if scenario.get("loads"):
        objects.append((LOAD_REPORTS, loads_of(scenario["loads"])))
    pods = [pod for pod in map(pod_of, scenario["pods"]) if pod.node_name]
    nodes = [convert(NODE.type, each) for each in scenario["nodes"]]
    cluster = make_cluster(*nodes, *pods, *objects, configuration=alone(plugin, scenario["args"], folder))
    for pod in map(pod_of, scenario["pods"]):
        if not pod.node_name:
            cluster.state.nominations.add(pod)
    return cluster


def loads_of(loads):
    """A report of what a load-watcher says."""
    nodes = {
        name: [Metric(each["type"], each["operator"], float(each["value"])) for each in metrics]
        for name, metrics in loads["nodes"].items()
        if metrics
    }
    return report_of(LoadReport.of(loads["end"], nodes))


def differences(plugin, scenario, steps, folder):
    """How Bayplan decides a scenario otherwise: of each step that differs, what it says, and what upstream says."""
    cluster = cluster_of(plugin, scenario, folder)
    pending = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in scenario["pending"]}
    for step in steps:
        decision = cluster.decide(pod_of(pending[step["pod"]]))
        ours = said(plugin, decision, cluster.state.nodes)
        theirs = expected(step, ours if plugin in NORMALIZING else None)
        if not alike(ours, theirs, int(plugin == "Peaks")):
            yield ours, theirs
        if "node" in step:
            place(cluster, pod_of(pending[step["pod"]], step["node"]))


def alike(ours, theirs, least):
    """Whether nodes are rejected and scored alike. Scores may differ by `least`.

    Those of Peaks rest on the exponential function, whose last digit depends on the processor in Go.
    """
    if ours["rejected"] != theirs["rejected"] or ours["scores"].keys() != theirs["scores"].keys():
        return False
    return all(abs(score - ours["scores"][name]) <= least for name, score in theirs["scores"].items())


def said(plugin, decision, nodes):
    """What the plugin says of nodes: the reasons, and the scores of the others."""
    rejected = {nodes.name(row): status.message for row, status in decision.diagnosis.verdicts.rejected()}
    scores = {}
    if decision.scores is not None:
        rows = decision.scores.rows.tolist()
        found = decision.scores.plugins.get(plugin)
        scores = dict(zip(map(nodes.name, rows), [0] * len(rows) if found is None else found.tolist(), strict=True))
    return {"rejected": rejected, "scores": scores}


def expected(step, unknown):
    """What upstream says. Where it fails the pod, scores that are out of bounds are 0 here.

    `unknown`: what counts in place of the scores that a failure leaves without their normalization; None if there is
    none.
    """
    scores = step.get("scores", {})
    if "error" in step:
        raw = step.get("raw", {})
        scores = {name: score if 0 <= score <= 100 else 0 for name, score in raw.items()}
        if unknown is not None and raw.keys() == unknown["scores"].keys():
            scores = unknown["scores"]
    return {"rejected": step.get("rejected", {}), "scores": scores}
