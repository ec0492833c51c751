"""A small cluster of three nodes in two zones, and manifests, each with one mistake."""

import copy

GI = 2**30


def node(name, zone, **labels):
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, **labels}
    room = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    taints = [{"key": "example.com/batch", "effect": "PreferNoSchedule"}] if name == "c" else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": room, "capacity": room},
    }


def cluster():
    quota = {"hard": {"requests.cpu": "1"}}
    return [
        node("a", "z1", disktype="standard"),
        node("b", "z2", disktype="standard"),
        node("c", "z2"),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "low", "namespace": "shop", "labels": {"app": "low"}},
            "spec": {
                "nodeName": "a",
                "containers": [{"name": "m", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
            },
            "status": {"phase": "Running"},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "small"},
            "spec": quota,
            "status": {**quota, "used": {"requests.cpu": "0"}},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data",
                "namespace": "shop",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "v",
            },
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "d", "volumeHandle": "v"},
                "claimRef": {"namespace": "shop", "name": "data"},
            },
            "status": {"phase": "Bound"},
        },
    ]


def of_workload(kind, name="web", namespace="shop", **spec):
    """A workload that runs well in the cluster, with other fields in its spec; `pod` are those of its pods."""
    pod, labels, amounts = spec.pop("pod", {}), {"app": name}, spec.pop("requests", {"cpu": "500m", "memory": "64Mi"})
    container = {"name": "main", "image": "nginx", "resources": {"requests": amounts}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}},
            **spec,
        },
    }


def deployment(name="web", **spec):
    return of_workload("Deployment", name, **spec)


def selecting(kind, api_version, **spec):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def affinity(name, term):
    return {"affinity": {name: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(labels, **more):
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
                **more,
            }
        ]
    }


APART = affinity(
    "podAntiAffinity", {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
)
NEXT_TO = affinity(
    "podAffinity", {"labelSelector": {"matchLabels": {"app": "lwo"}}, "topologyKey": "kubernetes.io/hostname"}
)
ON_NODES = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]}]
            }
        }
    }
}
MOUNTING = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
PODS = {"ports": [{"port": 80}]}
SCALED = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}
REFUSED = deployment("typo")
REFUSED["spec"]["template"]["spec"]["nodeSelectr"] = {"disktype": "standard"}
WEB = deployment()
ALSO_WEB = copy.deepcopy(deployment("api"))
ALSO_WEB["spec"]["selector"]["matchLabels"] = ALSO_WEB["spec"]["template"]["metadata"]["labels"] = {"app": "web"}

MISTAKES = {
    "refused": ([WEB, REFUSED], "refused", "deployment shop/typo", 'unknown field "spec.template.spec.nodeSelectr"'),
    "quota": (
        [deployment(namespace="small", replicas=3)],
        "quota",
        "deployment small/web",
        '1 pod would not be created: pods "web-',
    ),
    "pending": (
        [deployment(requests={"cpu": "6", "memory": "1Gi"})],
        "pending",
        "deployment shop/web",
        "2 of 2 pods would stay pending: 0/3 nodes are available: 3 Insufficient cpu",
    ),
    "some pending": (
        [deployment(replicas=4, pod=APART)],
        "pending",
        "deployment shop/web",
        "1 of 4 pods would stay pending",
    ),
    "evicts": (
        [
            deployment(
                replicas=1,
                requests={"cpu": "3500m"},
                pod={"priorityClassName": "urgent", "nodeName": ""} | {"nodeSelector": {"kubernetes.io/hostname": "a"}},
            )
        ],
        "evicts",
        "deployment shop/web",
        "1 pod would preempt 1 pod: shop/low; no other node would take shop/low",
    ),
    "the next rollout": (
        [deployment(replicas=3, pod=APART)],
        "rollout-stuck",
        "deployment shop/web",
        "after the next change of its template, the rollout of deployment shop/web gets stuck: 0 of 3 new pods",
    ),
    "ports of nodes": (
        [
            deployment(
                replicas=3,
                pod={
                    "containers": [
                        {
                            "name": "m",
                            "image": "i",
                            "ports": [{"containerPort": 80, "hostPort": 80}],
                            "resources": {"requests": {"cpu": "1m"}},
                        }
                    ]
                },
            )
        ],
        "rollout-stuck",
        "deployment shop/web",
        "gets stuck: 0 of 3 new pods",
    ),
    "twice": (
        [WEB, deployment(replicas=3)],
        "given-twice",
        "deployment shop/web",
        "it is given again, which counts",
    ),
    "only its controller knows": (
        [
            WEB,
            {
                "apiVersion": "example.com/v1",
                "kind": "Thing",
                "metadata": {"name": "t", "namespace": "shop"},
                "spec": {"template": WEB["spec"]["template"]},
            },
        ],
        "not-decided",
        "thing shop/t",
        "Thing t",
    ),
    "service": (
        [WEB, selecting("Service", "v1", selector={"app": "wbe"}, **PODS)],
        "selector-matches-nothing",
        "service shop/web",
        "selector app=wbe matches no pods of namespace shop: did you mean 'web'?",
    ),
    "policy": (
        [selecting("NetworkPolicy", "networking.k8s.io/v1", podSelector={"matchLabels": {"ap": "low"}})],
        "selector-matches-nothing",
        "networkpolicy shop/web",
        "podSelector ap=low matches no pods of namespace shop: did you mean 'app'?",
    ),
    "affinity": (
        [deployment(pod=NEXT_TO)],
        "affinity-matches-nothing",
        "deployment shop/web",
        "its required podAffinity to app=lwo matches no pods: did you mean 'low'?",
    ),
    "spread of others": (
        [deployment(pod=spread({"app": "other"}))],
        "spread-misses-itself",
        "deployment shop/web",
        "its spread over topology.kubernetes.io/zone counts app=other, which its own pods are not",
    ),
    "value of a label": (
        [deployment(pod={"nodeSelector": {"disktype": "standart"}})],
        "no-node-has-label",
        "deployment shop/web",
        "no node has the label disktype=standart: did you mean 'standard'?",
    ),
    "label": (
        [deployment(pod={"nodeSelector": {"disktpye": "standard"}})],
        "no-node-has-label",
        "deployment shop/web",
        "no node has the label disktpye=standard: did you mean 'disktype'?",
    ),
    "node affinity": (
        [deployment(pod=ON_NODES)],
        "no-node-has-label",
        "deployment shop/web",
        "no node matches its required nodeAffinity",
    ),
    "toleration": (
        [deployment(pod={"tolerations": [{"key": "example.com/btach", "operator": "Exists"}]})],
        "tolerates-no-taint",
        "deployment shop/web",
        "no node has the taint example.com/btach that it tolerates: did you mean 'example.com/batch'?",
    ),
    "budget": (
        [WEB, selecting("PodDisruptionBudget", "policy/v1", minAvailable=2, selector=WEB["spec"]["selector"])],
        "budget-blocks-drains",
        "poddisruptionbudget shop/web",
        "minAvailable 2 lets none of its 2 pods be evicted",
    ),
    "budget in percent": (
        [WEB, selecting("PodDisruptionBudget", "policy/v1", minAvailable="51%", selector=WEB["spec"]["selector"])],
        "budget-blocks-drains",
        "poddisruptionbudget shop/web",
        "minAvailable 51% lets none of its 2 pods be evicted",
    ),
    "selectors": (
        [WEB, ALSO_WEB],
        "selectors-overlap",
        "deployment shop/web",
        "it and deployment shop/api select the same pods",
    ),
    "volume": (
        [deployment(replicas=1, pod=MOUNTING)],
        "volume-of-one-node",
        "deployment shop/web",
        "claim data is ReadWriteOnce, but its old and its new pod may be on two nodes at the same time",
    ),
    "autoscaler": (
        [WEB, SCALED],
        "replicas-beside-autoscaler",
        "deployment shop/web",
        "replicas is set, and so is horizontalpodautoscaler shop/web",
    ),
    "memory": (
        [deployment(requests={"cpu": "1m", "memory": "500m"})],
        "tiny-memory",
        "deployment shop/web",
        "container main has requests.memory 500m, which is less than 1 MiB",
    ),
    "no requests": (
        [deployment(requests={})],
        "no-requests",
        "deployment shop/web",
        "main requests neither cpu nor memory",
    ),
}
"""case -> manifests, and the rule, the object and the beginning of the message that is found"""

RIGHT = {
    "service": selecting("Service", "v1", selector={"app": "web"}, **PODS),
    "service of all": selecting("Service", "v1", **PODS),
    "budget": selecting("PodDisruptionBudget", "policy/v1", maxUnavailable=1, selector=WEB["spec"]["selector"]),
    "budget in percent": selecting(
        "PodDisruptionBudget", "policy/v1", minAvailable="50%", selector=WEB["spec"]["selector"]
    ),
    "first goes": deployment(
        replicas=3, pod=APART, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}, "type": "RollingUpdate"}
    ),
    "recreated": deployment(replicas=1, pod=MOUNTING, strategy={"type": "Recreate"}),
    "stateful": of_workload("StatefulSet", pod=APART, serviceName="web"),
    "spread": deployment(pod=spread({"app": "web"}, matchLabelKeys=["pod-template-hash"])),
    "labelled": deployment(pod={"nodeSelector": {"disktype": "standard"}}),
    "tolerates all": deployment(pod={"tolerations": [{"operator": "Exists"}]}),
    "limits": deployment(
        pod={"containers": [{"name": "m", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}
    ),
    "near itself": deployment(
        pod=affinity(
            "podAffinity",
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "topology.kubernetes.io/zone"},
        )
    ),
}
"""Manifests in which nothing is wrong, beside a Deployment `web` if they aren't one."""
