"""Random clusters that are too full for a pending pod, with all that preemption takes into account."""

import msgspec
import yaml
from lightkube.models.core_v1 import Pod
from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD_DISRUPTION_BUDGET
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profiles, parse_configuration
from bayplan.core.framework.status import Status
from bayplan.plugin import Plugin
from bayplan.testing.builders import make_node, make_pod, pod_affinity, pod_term, spread_over

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("web", "db", "job")
VOLUMES = range(6)
EXCLUSIVE = {"c4", "c5"}
"""Claims that are ReadWriteOncePod: at most one pod on a node has each."""
MOST_VICTIMS = 12

PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: counted
  plugins:
    multiPoint: {enabled: [{name: PodsOfZone}, {name: Quiet}]}
- schedulerName: few-plugins
  plugins:
    multiPoint: {enabled: [{name: Quiet}], disabled: [{name: NodePorts}, {name: PodTopologySpread}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {ignoredResources: [example.com/gpu]}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: topology.kubernetes.io/zone, operator: NotIn, values: [c]}]
"""


class PodsOfZone(Plugin):
    """Allows two pods of an application in a zone. Counts them in PreFilter, so what-ifs update the counts."""

    name = "PodsOfZone"

    def pre_filter(self, cycle, pod, nodes):
        counts = {}
        for position in range(len(nodes)):
            if nodes.live[position]:
                for other in nodes.pods(position):
                    count(counts, pod, other, nodes.info(position), 1)
        cycle.data[self.name] = counts

    def filter(self, cycle, pod, node):
        if cycle.data[self.name].get(node.labels.get(ZONE), 0) > 1:
            return Status.unschedulable("too many pods of this application in the zone")
        return None

    def add_pod(self, cycle, pod, added, node):
        cycle.data[self.name] = dict(cycle.data[self.name])
        count(cycle.data[self.name], pod, added, node, 1)

    def remove_pod(self, cycle, pod, removed, node):
        cycle.data[self.name] = dict(cycle.data[self.name])
        count(cycle.data[self.name], pod, removed, node, -1)


def count(counts, pod, other, node, sign):
    if other.labels.get("app") == pod.labels.get("app"):
        zone = node.labels.get(ZONE)
        counts[zone] = counts.get(zone, 0) + sign


class Quiet(Plugin):
    """Rejects nodes with a pod of the application "job". Has only the form for one node, and reads its pods."""

    name = "Quiet"

    def filter(self, cycle, pod, node):
        if pod.labels.get("app") == "db" and any(other.labels.get("app") == "job" for other in node.pods):
            return Status.unschedulable("the node isn't quiet")
        return None

    def sign(self, pod):
        return pod.labels.get("app")


PLUGINS = (PodsOfZone, Quiet)


def claimed(claims):
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def profiles(state):
    """Profiles by scheduler name: the default plugins, two more plugins, and fewer plugins with arguments."""
    return build_profiles(parse_configuration(yaml.safe_load(PROFILES)), OfflineHandle(state), PLUGINS)


class FullCluster:
    """A cluster of nodes of many sizes, with 0 to 12 pods each. Draws from a random.Random."""

    def __init__(self, rng):
        self.rng = rng
        self.state = ClusterState()
        self.made = 0
        self.nodes = [f"n{number}" for number in range(rng.choice([1, 3, 8, 16]))]
        self.most = rng.choice([2, 5, MOST_VICTIMS])
        for name in self.nodes:
            self.fill(name)
        for number in VOLUMES:
            self.volume(number)
        for add in (self.csi_node, self.budget, self.nominate):  # often none: other code runs then
            for _ in range(rng.choice([0, 0, 1, 3])):
                add()

    def fill(self, name):
        """Add a node with pods. Most nodes have no room for another one."""
        victims = self.rng.randint(0, self.most)
        self.node(name, max(1, victims + self.rng.choice([-2, 0, 0, 0, 1])))
        for _ in range(victims):
            self.start(name)

    def node(self, name, pods):
        rng = self.rng
        labels = {ZONE: rng.choice("aabbc")} if rng.random() < 0.9 else {}
        taints = ["dedicated=db:NoSchedule"] if rng.random() < 0.1 else ()
        gpus = {"example.com/gpu": f"{rng.randint(1, 4)}"} if rng.random() < 0.4 else {}
        cpu = f"{rng.choice([1, 2, 4, 8])}"
        self.state.set_node(make_node(name, cpu=cpu, pods=pods, labels=labels, taints=taints, resources=gpus))

    def start(self, node):
        started = {"startTime": f"2026-01-01T00:00:{self.rng.randint(0, 3):02}Z"} if self.rng.random() < 0.8 else {}
        self.state.set_pod(self.pod("low", self.rng.randint(0, 4), node=node, status=started))

    def pending(self):
        """A pod for which some pods of the cluster have a lower priority."""
        return self.pod("high", self.rng.choice([1, 3, 3, 4, 5]))

    def pod(self, prefix, priority, **others):
        rng = self.rng
        self.made += 1
        key, app = rng.choice([ZONE, HOSTNAME]), {"app": rng.choice(APPS)}
        spec = {}
        if rng.random() < 0.25:
            spec["affinity"] = pod_affinity(pod_term(key, app), anti=rng.random() < 0.7)
        if rng.random() < (0.2 if others else 0.4):
            spec["topologySpreadConstraints"] = [spread_over(key, app, max_skew=rng.randint(1, 3))]
        if rng.random() < 0.25:
            claims = {f"c{number}" for number in rng.sample(VOLUMES, rng.choice([1, 1, 2]))}
            claims = sorted(claims - self.taken() if others else claims)
            spec["volumes"] = claimed(claims)
        requests = {"example.com/gpu": f"{rng.randint(1, 2)}"} if rng.random() < 0.2 else {}
        return make_pod(
            f"{prefix}-{self.made}",
            cpu=f"{rng.choice([100, 250, 500, 1000, 2000])}m",
            requests=requests,
            priority=priority,
            labels={"app": rng.choice(APPS)},
            host_ports=[rng.choice([80, 80, 443])] if rng.random() < 0.2 else (),
            tolerations=[{"key": "dedicated", "operator": "Exists"}] if rng.random() < 0.3 else (),
            spec=spec,
            **others,
        )

    def alike(self, pod):
        """A pod like another one, often with other claims."""
        self.made += 1
        name, rng = f"alike-{self.made}", self.rng
        document = msgspec.json.decode(encode(pod.object))
        document["metadata"] |= {"name": name, "uid": name}
        if rng.random() < 0.5:
            document["spec"]["volumes"] = claimed(f"c{number}" for number in rng.sample(VOLUMES, rng.choice([0, 1, 2])))
        return PodInfo(convert(Pod, document))

    def volume(self, number):
        rng, name = self.rng, f"v{number}"
        expression = {"key": ZONE, "operator": "In", "values": [rng.choice("ab")]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
        source = {"csi": {"driver": "d", "volumeHandle": name}}
        if rng.random() < 0.5:
            source = {"awsElasticBlockStore": {"volumeID": f"vol-{number}"}}
        spec = {**source, **(affinity if rng.random() < 0.3 else {}), "accessModes": ["ReadWriteOnce"]}
        labels = {ZONE: rng.choice("ab")} if rng.random() < 0.3 else {}
        self.put(PERSISTENT_VOLUME, name, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        metadata = {"name": f"c{number}", "namespace": "default"}
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        mode = "ReadWriteOncePod" if f"c{number}" in EXCLUSIVE else "ReadWriteOnce"
        claim = {"metadata": metadata, "spec": {"volumeName": name, "accessModes": [mode]}}
        self.put(PERSISTENT_VOLUME_CLAIM, f"default/c{number}", claim)

    def csi_node(self):
        name, rng = self.rng.choice(self.nodes), self.rng
        limit = {"allocatable": {"count": rng.randint(0, 2)}} if rng.random() < 0.7 else {}
        driver = {"name": rng.choice(["d", "ebs.csi.aws.com"]), "nodeID": name, "topologyKeys": [], **limit}
        migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
        metadata = {"name": name, "annotations": migrated if rng.random() < 0.5 else {}}
        self.put(CSI_NODE, name, {"metadata": metadata, "spec": {"drivers": [driver]}})

    def budget(self):
        app = self.rng.choice(APPS)
        spec, status = {"selector": {"matchLabels": {"app": app}}}, {"disruptionsAllowed": self.rng.randint(0, 3)}
        document = {"metadata": {"name": app, "namespace": "default"}, "spec": spec, "status": status}
        self.state.objects[POD_DISRUPTION_BUDGET].set(f"default/{app}", convert(PodDisruptionBudget, document))

    def nominate(self):
        self.state.nominations.add(self.pod("nominee", self.rng.randint(1, 6)), self.rng.choice(self.nodes))

    def end_nominations(self):
        for uid in [uid for nominated in self.state.nominations.nodes.values() for uid in nominated]:
            self.state.nominations.remove(uid)

    def put(self, kind, key, document):
        self.state.objects[kind].set(key, convert(kind.type, document))

    def running(self):
        return [pod for pods in self.state.table.pods for pod in pods.values()]

    def taken(self):
        """The exclusive claims in use."""
        volumes = [volume for pod in self.running() for volume in pod.volumes]
        return EXCLUSIVE & {volume.persistentVolumeClaim.claimName for volume in volumes}

    def change(self):
        """Change one thing that decisions depend on, as between two attempts."""
        rng = self.rng
        what = rng.choice(
            ["evict", "evict", "start", "start", "restart", "volume", "csi node", "budget", "nominate", "end", "node"]
        )
        if what == "evict" and self.running():
            self.state.remove_pod(rng.choice(self.running()).uid)
        elif what == "start":
            self.start(rng.choice(self.nodes))
        elif what == "restart":  # another pod takes the place of one, at once
            if self.running():
                old = rng.choice(self.running())
                self.state.remove_pod(old.uid)
                self.start(old.node_name)
        elif what == "volume":
            self.volume(rng.choice(VOLUMES))
        elif what == "csi node":
            self.csi_node()
        elif what == "budget":
            self.budget()
        elif what == "nominate":
            self.nominate()
        elif what == "end":
            self.end_nominations()
        elif what == "node":
            self.change_node()

    def change_node(self):
        """Change a node, remove it with its pods, or add one: rows are reused, and the table grows."""
        rng = self.rng
        what = rng.random()
        if what < 0.2 and len(self.nodes) > 1:
            self.remove(rng.choice(self.nodes))
        elif what < 0.5:
            self.made += 1
            self.nodes.append(f"new-{self.made}")
            self.fill(self.nodes[-1])
        else:
            self.node(rng.choice(self.nodes), rng.randint(1, self.most))

    def remove(self, name):
        """Remove a node with its pods."""
        self.nodes.remove(name)
        for pod in list(self.state.table.pods[self.state.table.row_of[name]].values()):
            self.state.remove_pod(pod.uid)
        self.state.remove_node(name)
