"""Random small clusters whose pods refer to one another, as manifests."""

from plain_loops import HOSTNAME, PlainCluster, name

ZONE, RACK = "topology.kubernetes.io/zone", "Rack"
NODES = [f"n{number}" for number in range(5)]
NAMESPACES = ["one", "two", "unknown"]
"""The scheduler has no Namespace object for the last one."""


TOLERATED = [{"operator": "Exists"}, *({"operator": each, "value": "2"} for each in ("Gt", "Lt", "Equal"))]


class Maker:
    """Draws from a random.Random."""

    def __init__(self, rng):
        self.rng = rng

    def cluster(self):
        nodes = [self.node(each) for each in self.rng.sample(NODES, self.rng.randint(1, len(NODES)))]
        pods = [self.bound(f"p{number}", self.rng.choice(NODES)) for number in range(self.rng.randint(0, 8))]
        return PlainCluster(nodes, pods, {"one": {"team": "red"}, "two": self.namespace_labels()})

    def namespace_labels(self):
        return self.rng.choice([{}, {"team": "red"}, {"team": "blue"}])

    def node(self, of):
        labels = {}
        if self.rng.random() < 0.8:
            labels[ZONE] = self.rng.choice(["a", "a", "B", ""])
        if self.rng.random() < 0.8:
            labels[RACK] = self.rng.choice(["1", "2"])
        if self.rng.random() < 0.9:
            labels[HOSTNAME] = of
        effects = self.rng.choice([(), (), (), ("NoSchedule",), ("PreferNoSchedule",), ("NoExecute",)])
        taints = [
            {"key": "dedicated", "value": self.rng.choice(["", "1", "3"]), "effect": effect} for effect in effects
        ]
        return {"metadata": {"name": of, "labels": labels}, "spec": {"taints": taints}}

    def bound(self, of, node):
        pod = self.pod(of)
        pod["spec"]["nodeName"] = node
        if self.rng.random() < 0.2:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return pod

    def pod(self, of):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        affinity = {kind: self.rules() for kind in ("podAffinity", "podAntiAffinity") if self.rng.random() < 0.4}
        if affinity:
            spec["affinity"] = affinity
        if self.rng.random() < 0.6:
            spec["topologySpreadConstraints"] = [self.constraint() for _ in range(self.rng.randint(0, 2))]
        if self.rng.random() < 0.2:
            spec["nodeSelector"] = {ZONE: "a"}
        if self.rng.random() < 0.2:
            spec["tolerations"] = [self.toleration()]
        namespace = self.rng.choice([NAMESPACES[0], *NAMESPACES])
        return {"metadata": {"name": of, "uid": of, "namespace": namespace, "labels": self.pod_labels()}, "spec": spec}

    def toleration(self):
        return {"key": "dedicated", **self.rng.choice(TOLERATED)}

    def pod_labels(self):
        return {
            key: value
            for key, value in (("app", self.rng.choice("aaB")), ("Tier", self.rng.choice(["x", "Y", ""])))
            if self.rng.random() < 0.8
        }

    def rules(self):
        rules = {}
        if self.rng.random() < 0.6:
            terms = [self.term() for _ in range(self.rng.randint(1, 2))]
            rules["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if self.rng.random() < 0.6:
            weighted = [{"weight": self.rng.choice([1, 3]), "podAffinityTerm": self.term()} for _ in range(2)]
            rules["preferredDuringSchedulingIgnoredDuringExecution"] = weighted
        return rules

    def term(self):
        term = {"topologyKey": self.rng.choice([ZONE, ZONE, RACK, HOSTNAME]), "labelSelector": self.selector()}
        if self.rng.random() < 0.3:
            term["namespaces"] = self.rng.sample(NAMESPACES, self.rng.randint(0, 2))
        if self.rng.random() < 0.3:
            red = {"matchLabels": {"team": "red"}}
            not_red = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}
            term["namespaceSelector"] = self.rng.choice([{}, red, not_red])
        return term

    def selector(self):
        operator = self.rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        expression = {"key": self.rng.choice(["app", "Tier"]), "operator": operator}
        if operator in {"In", "NotIn"}:
            expression["values"] = self.rng.sample(["a", "B", "x", ""], 2)
        usual = {"matchLabels": {"app": "a"}}
        return self.rng.choice([usual, usual, usual, {"matchExpressions": [expression]}, {}, None])

    def constraint(self):
        constraint = {
            "topologyKey": self.rng.choice([ZONE, ZONE, RACK, HOSTNAME]),
            "maxSkew": self.rng.randint(1, 2),
            "whenUnsatisfiable": self.rng.choice(["DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway", "DoNotKnow"]),
            "labelSelector": self.selector(),
        }
        for field, values in (
            ("minDomains", [2, 4]),
            ("matchLabelKeys", [["Tier"]]),
            ("nodeAffinityPolicy", ["Honor", "Ignore"]),
            ("nodeTaintsPolicy", ["Honor", "Ignore"]),
        ):
            if self.rng.random() < 0.3:
                constraint[field] = self.rng.choice(values)
        return constraint

    def what_ifs(self, cluster):
        """What-ifs by node name: pods that are added, and pods that are removed."""
        changes = {}
        for node in cluster.nodes:
            added = [self.bound(f"new-{name(node)}-{number}", name(node)) for number in range(self.rng.randint(0, 2))]
            changes[name(node)] = added, [pod for pod in cluster.on(node) if self.rng.random() < 0.5]
        return changes

    def some(self, cluster):
        """Some of the nodes."""
        return self.rng.sample(cluster.nodes, self.rng.randint(1, len(cluster.nodes)))
