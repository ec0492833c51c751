"""Random clusters of a few nodes and pods, as documents, with all that decisions depend on."""

import random

from tests.support.documents import of_kind

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "example.com/gpu"
DRIVER = "gpu.example.com"
KEYS = [ZONE, HOSTNAME]
CLASSES = [of_kind("PriorityClass", f"priority-{value}", value=value) for value in (10, 20)]


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def once_in(self, number):
        return self.rng.random() < 1 / number

    def cluster(self):
        nodes = [self.node(f"n{number}") for number in range(self.rng.randint(1, 5))]
        names = [node["metadata"]["name"] for node in nodes]
        pods = [self.pod(f"old-{number}", node=self.rng.choice(names)) for number in range(self.rng.randint(0, 8))]
        return [*nodes, *CLASSES, *self.budgets(), *self.volumes(names), *self.devices(names), *pods]

    def node(self, name):
        rng = self.rng
        room = {"cpu": rng.choice("124"), "memory": rng.choice(["2Gi", "8Gi"]), "pods": rng.choice(["3", "10", "110"])}
        if self.once_in(4):
            room[GPU] = rng.choice("12")
        labels = {HOSTNAME: name, ZONE: rng.choice("ab"), "disk": rng.choice(["ssd", "hdd"]), "size": rng.choice("123")}
        if self.once_in(10):
            del labels[ZONE]
        taints = [
            ("dedicated", "x", "NoSchedule", 3),
            ("soft", "y", "PreferNoSchedule", 5),
            ("broken", "", "NoExecute", 12),
            ("node.kubernetes.io/unschedulable", "", "NoSchedule", 6),
        ]
        chosen = [{"key": key, "value": value, "effect": effect} for key, value, effect, n in taints if self.once_in(n)]
        cordoned = any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in chosen)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": chosen, **({"unschedulable": True} if cordoned else {})},
            "status": {"allocatable": room, "capacity": dict(room)},
        }

    # Pods

    def pod(self, name, node=None, **spec):
        rng = self.rng
        requests = {"cpu": rng.choice(["100m", "500m", "1", "1500m"])}
        if self.once_in(3):
            requests["memory"] = rng.choice(["256Mi", "1Gi", "3Gi"])
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        if self.once_in(8):
            requests[GPU] = "1"
            container["resources"]["limits"] = {GPU: "1"}
        if self.once_in(7):
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        if self.once_in(10):
            init = {"name": "init", "image": "i", "resources": {"requests": {"cpu": rng.choice("12")}}}
            spec["initContainers"] = [init]
        if self.once_in(3):
            spec["priority"] = rng.choice([10, 20])
            spec["priorityClassName"] = f"priority-{spec['priority']}"
        if self.once_in(3):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.once_in(5):
            spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd", "nvme"])}
        if affinity := self.affinity():
            spec["affinity"] = affinity
        if self.once_in(4):
            spec["topologySpreadConstraints"] = self.spread()
        if self.once_in(20) and node is None:
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        if self.once_in(8):
            claim = "once" if node else rng.choice(["bound", "loose", "once", "missing"])
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        if self.once_in(10) and node is None:
            claim = rng.choice(["one", "two", "missing"])
            spec["resourceClaims"] = [{"name": "devices", "resourceClaimName": claim}]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": rng.choice("ab")}},
            "spec": {**spec, **({"nodeName": node} if node else {})},
            "status": {"phase": "Running" if node else "Pending"},
        }

    def selector(self):
        return {"matchLabels": {"app": self.rng.choice("ab")}}

    def affinity(self):
        rng, affinity = self.rng, {}
        if self.once_in(3):
            term = {"topologyKey": rng.choice(KEYS), "labelSelector": self.selector()}
            kind = rng.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if self.once_in(6):
            term = {"topologyKey": rng.choice(KEYS), "labelSelector": self.selector()}
            kind = rng.choice(["podAffinity", "podAntiAffinity"])
            preferred = [{"weight": rng.choice([10, 100]), "podAffinityTerm": term}]
            affinity.setdefault(kind, {})["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        if self.once_in(8):
            rule = rng.choice(
                [
                    {"key": "disk", "operator": "In", "values": ["ssd"]},
                    {"key": "size", "operator": "Gt", "values": ["1"]},
                    {"key": ZONE, "operator": "Exists"},
                    {"key": ZONE, "operator": "NotIn", "values": ["a"]},
                ]
            )
            terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return affinity

    def spread(self):
        """One or two constraints over different keys."""
        constraints = []
        for key in self.rng.sample(KEYS, self.rng.choice([1, 1, 2])):
            hard = self.rng.random() < 0.7
            constraint = {
                "maxSkew": self.rng.choice([1, 1, 2]),
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
                "labelSelector": self.selector(),
            }
            if hard and self.once_in(5):
                constraint["minDomains"] = 2
            if self.once_in(5):
                constraint["nodeTaintsPolicy"] = "Honor"
            constraints.append(constraint)
        return constraints

    # Other objects

    def budgets(self):
        for app in "ab":
            if self.once_in(3):
                allowed = self.rng.randint(0, 2)
                yield {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": app, "namespace": "default"},
                    "spec": {"minAvailable": self.rng.randint(0, 2), "selector": {"matchLabels": {"app": app}}},
                    "status": {
                        "disruptionsAllowed": allowed,
                        "currentHealthy": allowed + 1,
                        "desiredHealthy": 1,
                        "expectedPods": allowed + 1,
                    },
                }

    def volumes(self, nodes):
        """A claim that is bound to a volume of a node, one without a place, and one that one pod at a time may use."""
        local = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
        yield {**local, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        yield from self.bound_claim("bound", "ReadWriteOnce", [self.rng.choice(nodes)])
        yield from self.bound_claim("once", "ReadWriteOncePod", nodes)
        yield self.claim("loose", "ReadWriteOnce")
        for node in nodes:
            if self.once_in(3):
                yield self.volume(f"on-{node}", "ReadWriteOnce", [node])

    def bound_claim(self, name, mode, nodes):
        volume, claim = self.volume(f"volume-{name}", mode, nodes), self.claim(name, mode)
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name, "namespace": "default"}
        volume["spec"]["claimRef"], volume["status"] = {**reference, "uid": name}, {"phase": "Bound"}
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["status"] = {"phase": "Bound", "accessModes": [mode], "capacity": {"storage": "5Gi"}}
        return volume, claim

    def volume(self, name, mode, nodes):
        rule = {"key": HOSTNAME, "operator": "In", "values": nodes}
        spec = {
            "capacity": {"storage": "5Gi"},
            "accessModes": [mode],
            "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
        }
        status = {"phase": "Available"}
        return of_kind("PersistentVolume", name, spec=spec, status=status)

    def claim(self, name, mode):
        resources = {"requests": {"storage": self.rng.choice(["1Gi", "5Gi"])}}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"accessModes": [mode], "storageClassName": "local", "resources": resources},
            "status": {"phase": "Pending"},
        }

    def devices(self, nodes):
        """Devices of some nodes, and claims of one and of two of them."""
        api = {"apiVersion": "resource.k8s.io/v1"}
        rule = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        yield {**api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": [rule]}}
        for node in nodes:
            if self.once_in(3):
                devices = [
                    {"name": f"gpu-{number}", "attributes": {"size": {"int": self.rng.choice([1, 2])}}}
                    for number in range(self.rng.randint(1, 2))
                ]
                pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
                spec = {"nodeName": node, "driver": DRIVER, "pool": pool, "devices": devices}
                yield {**api, "kind": "ResourceSlice", "metadata": {"name": f"of-{node}"}, "spec": spec}
        for name, count in (("one", 1), ("two", 2)):
            exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
            if self.once_in(3):
                exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].size > 1'}}]
            spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
            metadata = {"name": name, "namespace": "default", "uid": name}
            yield {**api, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}

    def file(self):
        """Groups of objects that are created together: single pods, and gangs."""
        units = [[self.pod(f"new-{number}")] for number in range(self.rng.randint(1, 5))]
        if self.rng.random() < 0.5:
            least = self.rng.randint(1, 3)
            group = {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": "crew", "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
            }
            member = {"schedulingGroup": {"podGroupName": "crew"}}
            members = [self.pod(f"crew-{number}", **member) for number in range(self.rng.randint(1, 3))]
            if len(members) > least:  # it may be attempted with the first ones, so the others must be equal to these
                for each in members:
                    each["spec"] = members[0]["spec"]
                    each["metadata"]["labels"] = members[0]["metadata"]["labels"]
            # Without their group, the members are gated: all of them exist when the gang is attempted.
            units.insert(self.rng.randrange(len(units) + 1), [*members, group])
        return units


def members_of_larger_gangs(units):
    """The names of the members of gangs that have more of them than they need.

    Such a gang may be attempted before all of its members are in the queue.
    """
    for unit in units:
        *members, last = unit
        least = last["spec"].get("schedulingPolicy", {}).get("gang", {}).get("minCount", 0)
        if members and len(members) > least:
            yield from (member["metadata"]["name"] for member in members)
