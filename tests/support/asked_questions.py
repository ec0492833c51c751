"""One question of every kind about the small cluster, with the objects that its command reads from files."""

from tests.support.served_questions import new_pod, node, pod

CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ],
        }
    ],
}
WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "api", "namespace": "default"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "api"}},
        "template": {
            "metadata": {"labels": {"app": "api"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
        },
    },
}
CHANGED = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}]},
        },
    },
}
"""A workload of the small cluster, with another template."""

ASKED = {
    "what is wrong": ("doctor", {}),
    "what is wrong in a namespace": ("doctor", {"namespace": "default"}),
    "explain a pending pod": ("explain", {"pod": "default/big-0"}),
    "explain with a namespace": ("explain", {"pod": "web-0", "namespace": "default", "nearest": 10}),
    "explain all pending pods": ("explain-pending", {}),
    "explain pods by selector": ("explain-pending", {"namespace": "default", "selector": "app=big"}),
    "explain a workload": ("explain-workload", {"workload": "replicaset/web"}),
    "why not": ("why-not", {"pod": "big-0", "node": "node-a1"}),
    "fit": ("fit", {"objects": [new_pod("new-0"), new_pod("new-1", "7")]}),
    "fit a workload": ("fit", {"objects": [WORKLOAD]}),
    "check": ("check", {"objects": [WORKLOAD]}),
    "check of a change": ("check", {"objects": [CHANGED, new_pod("new-0")], "failOn": "warning"}),
    "capacity": ("capacity", {"kinds": [{"objects": [WORKLOAD]}], "labels": ["pool"]}),
    "capacity of sets": (
        "capacity",
        {"kinds": [{"objects": [new_pod("a")], "copies": 2}, {"objects": [new_pod("b", "200m")]}], "most": 2},
    ),
    "capacity with preemption": ("capacity", {"kinds": [{"objects": [new_pod("a")]}], "preempt": True}),
    "drain": ("drain", {"nodes": ["node-a1"], "force": True, "atOnce": True}),
    "drain by labels": ("drain", {"selector": "pool=big", "ignoreDaemonsets": True, "deleteEmptydirData": True}),
    "shrink": ("shrink", {"selector": "pool=big", "force": True, "deleteEmptydirData": True}),
    "scale up": ("scale-up", {}),
    "scale up for objects": ("scale-up", {"objects": [new_pod("new-0", "7")], "pools": ["big"], "most": 5}),
    "scale up with prices": ("scale-up", {"objects": [new_pod("new-0", "7")], "prices": {"big": 0.5, "small": 0.1}}),
    "when": ("when", {"what": "default/big-0", "runs": 3}),
    "when with durations": (
        "when",
        {"what": "replicaset/web", "durations": {"replicaset default/web": {"p50": "20m", "p90": "1h"}}, "runs": 3},
    ),
    "when for objects": (
        "when",
        {
            "objects": [new_pod("new-0", "7")],
            "autoscaler": "karpenter",
            "models": {"pods": {"startupSeconds": 1}},
            "sooner": "no",
        },
    ),
    "when for all pending pods": ("when-pending", {"namespace": "default", "selector": "app=big", "runs": 3}),
    "what if nodes change": (
        "what-if",
        {
            "removeNodes": ["node-a1"],
            "addNodes": ["2xlike:node-b1"],
            "uncordon": ["node-a2"],
            "labels": [["node-b1", "disk=nvme"]],
            "taints": [["node-a2", "gpu=yes:NoSchedule"]],
        },
    ),
    "what if pods change": (
        "what-if",
        {"cordon": ["node-b1"], "deletePods": ["web-1"], "objects": [new_pod("new-0")], "replaceAll": True},
    ),
    "what if the workload scales": ("what-if", {"scale": ["replicaset/web=4"]}),
    "what if a workload changes": ("what-if", {"objects": [{**WORKLOAD, "kind": "ReplicaSet"}, CHANGED]}),
    "what if requests change": (
        "what-if",
        {
            "requests": [{"kind": "ReplicaSet", "name": "web", "container": "c", "cpu": "250m"}],
            "scaleRequests": ["replicaset/web=2"],
            "prices": {"big": 0.5, "small": 0.1},
        },
    ),
    "what if another scheduler": ("what-if", {"configuration": CONFIGURATION}),
    "balance": ("balance", {"like": "default/web-1", "most": 20}),
    "balance of objects": ("balance", {"objects": [new_pod("new-0", "2")], "most": 20}),
    "usage": ("usage", {"namespace": "default", "selector": "app=web", "by": ["workload"]}),
    "upgrade": ("upgrade-preview", {}),
    "upgrade of some pods": ("upgrade-preview", {"to": "1.37", "namespace": "default", "selector": "app=web"}),
    "diff of clusters": ("diff", {"before": [node("node-a1"), pod("web-0", node="node-a1", owner="web")]}),
    "diff of manifests": ("diff", {"objects": [CHANGED]}),
    "diff of schedulers": ("diff", {"configuration": CONFIGURATION}),
}
"""case -> the name of the question, and its parameters"""
