"""A small cluster with objects of every kind that questions read, and ways to damage it."""

import copy

import yaml

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, topology.kubernetes.io/zone: a, pool: web}}
spec: {taints: [{key: dedicated, value: x, effect: NoSchedule}]}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}, {type: MemoryPressure, status: "False"}]
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/hostname: n2, topology.kubernetes.io/zone: b, pool: web}}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
status:
  capacity: {cpu: "8", memory: 8Gi, pods: "5"}
  allocatable: {cpu: "8", memory: 8Gi, pods: "5"}
  conditions: [{type: Ready, status: Unknown, reason: NodeStatusUnknown}]
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
status: {disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 2}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec: {hard: {pods: "20", requests.cpu: "40"}}
status: {hard: {pods: "20", requests.cpu: "40"}, used: {pods: "9", requests.cpu: "9"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, default: {cpu: "1"}, defaultRequest: {cpu: 100m}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, uid: d1, generation: 2}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
status: {observedGeneration: 2, replicas: 2}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-5d4
  uid: r1
  annotations: {deployment.kubernetes.io/revision: "1"}
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true}]
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-5d4-0
  uid: p1
  labels: {app: web, pod-template-hash: 5d4}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4, uid: r1, controller: true}]
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-5d4-1
  uid: p2
  labels: {app: web, pod-template-hash: 5d4}
  creationTimestamp: "2026-01-01T00:00:00Z"
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4, uid: r1, controller: true}]
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}, ports: [{containerPort: 80, hostPort: 80}]}]
  tolerations: [{key: dedicated, operator: Exists}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule,
     labelSelector: {matchLabels: {app: web}}}
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/2 nodes,
                lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, uid: s1}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: db-0
  uid: p3
  labels: {app: db, apps.kubernetes.io/pod-index: "0"}
  ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s1, controller: true}]
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-0}}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [db]}]}]
status: {phase: Pending, nominatedNodeName: n1}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: disk.acme.io
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disk.acme.io}
spec: {storageCapacity: true, attachRequired: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: n1-disk, namespace: default}
storageClassName: disk
capacity: 10Gi
nodeTopology: {matchLabels: {kubernetes.io/hostname: n1}}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: disk.acme.io, nodeID: n1, allocatable: {count: 1}, topologyKeys: [kubernetes.io/hostname]}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data-db-0
  annotations: {volume.kubernetes.io/selected-node: n1, volume.beta.kubernetes.io/storage-provisioner: disk.acme.io}
spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}
status: {phase: Pending}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: old, uid: c2, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {accessModes: [ReadWriteOnce], storageClassName: disk, volumeName: pv, resources: {requests: {storage: 1Gi}}}
status: {phase: Bound, capacity: {storage: 1Gi}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: disk
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: default, name: old, uid: c2}
  csi: {driver: disk.acme.io, volumeHandle: pv}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [gone]}]}]
status: {phase: Bound}
---
apiVersion: v1
kind: Pod
metadata: {name: single, uid: p4}
spec:
  priority: 1000
  priorityClassName: high
  containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]
  initContainers: [{name: c0, image: i, resources: {requests: {cpu: "7"}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: old}}]
status: {phase: Pending}
---
apiVersion: batch/v1
kind: Job
metadata: {name: nightly-28000000, uid: j1,
  ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: cj1, controller: true}]}
spec:
  completions: 2
  parallelism: 2
  selector: {matchLabels: {job: nightly}}
  template:
    metadata: {labels: {job: nightly}}
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
status: {active: 1, conditions: [{type: Suspended, status: "False"}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, uid: cj1}
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: nightly-28000000-x, uid: p5, labels: {job: nightly},
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: nightly-28000000, uid: j1, controller: true}]}
spec: {schedulingGates: [{name: acme.io/quota}], containers: [{name: c, image: i}]}
status: {phase: Pending}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, uid: ds1}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
status: {desiredNumberScheduled: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-1, uid: p6, labels: {app: agent}, deletionTimestamp: "2026-01-01T00:00:00Z",
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: ds1, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
status: {phase: Running}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: trio}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
---
apiVersion: v1
kind: Pod
metadata: {name: w-0, uid: p7}
spec: {schedulingGroup: {podGroupName: trio}, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: w-1, uid: p8}
spec: {schedulingGroup: {podGroupName: trio}, containers: [{name: c, image: i, resources: {requests: {cpu: "6"}}}]}
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: w-2, uid: p9}
spec: {schedulingGroup: {podGroupName: trio}, nodeName: n1, containers: [{name: c, image: i}]}
status: {phase: Succeeded}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: acme.io/gpu, selectors: [{cel: {expression: device.driver == "gpu.acme.io"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-devices}
spec:
  driver: gpu.acme.io
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: g0, attributes: {kind: {string: big}}}
  - {name: g1, attributes: {kind: {string: small}}, taints: [{key: broken, value: "yes", effect: NoSchedule}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train-c, uid: rc1,
  ownerReferences: [{apiVersion: v1, kind: Pod, name: train, uid: p10, controller: true}]}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: held, uid: rc2}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.acme.io, pool: n1, device: g0}]}}
  reservedFor: [{resource: pods, name: holder, uid: p11}]
---
apiVersion: v1
kind: Pod
metadata: {name: train, uid: p10}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}, claims: [{name: c}]}}]
  resourceClaims: [{name: c, resourceClaimTemplateName: one-gpu}]
  tolerations: [{operator: Exists}]
status: {phase: Pending, resourceClaimStatuses: [{name: c, resourceClaimName: train-c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: later, uid: p12}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: c}]}}]
  resourceClaims: [{name: c, resourceClaimTemplateName: one-gpu}]
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: holder, uid: p11}
spec:
  nodeName: n1
  containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]
  resourceClaims: [{name: c, resourceClaimName: held}]
status: {phase: Running}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: kube-scheduler, namespace: kube-system}
spec: {holderIdentity: a, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
---
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: default}
involvedObject: {apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4, namespace: default, uid: r1}
reason: FailedCreate
message: "Error creating: pods is forbidden"
type: Warning
lastTimestamp: "2026-01-01T00:00:00Z"
"""

ODD = [
    None,
    "",
    "odd",
    "-1",
    -1,
    0,
    10**18,
    1.5,
    True,
    [],
    {},
    [None],
    [{}],
    {"": ""},
    "a/b/c",
    "\u0000",
    "9" * 40,
    "2026-13-45",
]


def everything():
    """The documents of the cluster."""
    return list(yaml.safe_load_all(CLUSTER))


def paths_in(value, path=()):
    """All places in a document, but not those that say which object it is."""
    if path not in {(), ("metadata",)}:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        if (*path, key) not in _IDENTITY:
            yield from paths_in(each, (*path, key))


_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def damaged(documents, rng):
    """The documents with a few objects or fields gone, odd, dangling or colliding."""
    documents = copy.deepcopy(documents)
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        if documents:
            _damage(documents, rng)
    return documents


def _damage(documents, rng):
    document = rng.choice(documents)
    how = rng.choice(["gone", "field gone", "odd field", "odd field", "dangling", "same name", "moved", "status"])
    if how == "gone":
        documents.remove(document)
        return
    if how == "same name":
        other = rng.choice(documents)
        document["metadata"] = {**document["metadata"], "name": other["metadata"]["name"]}
        return
    if how == "status":
        same = [each for each in documents if each["kind"] == document["kind"]]
        document["status"] = copy.deepcopy(rng.choice(same).get("status"))
        return
    places = list(paths_in(document))
    if not places:
        return
    *to, last = rng.choice(places)
    holder = document
    for key in to:
        holder = holder[key]
    if how == "field gone":
        del holder[last]
    elif how == "odd field":
        holder[last] = copy.deepcopy(rng.choice(ODD))
    elif how == "dangling":
        holder[last] = "gone" if isinstance(holder[last], str) else holder[last]
    else:
        *_, other = rng.choice([*paths_in(rng.choice(documents)), ("odd",)])
        if isinstance(holder, dict):
            holder[other] = holder.pop(last)
