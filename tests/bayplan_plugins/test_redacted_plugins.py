"""Redacted recordings of plugins of scheduler-plugins: a replay decides as before, and no name is left."""

import asyncio

import msgspec
import pytest
import yaml
from tests.support.stories import in_virtual_time, scheduling
from tests.support.tables import cases

from bayplan.answers.replay.policies import recorded_policy, setting_of
from bayplan.answers.replay.redaction import RecordingRedactor
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS
from bayplan.core.config import Catalog, build_profiles, parse_configuration
from bayplan.core.config.writing import to_yaml
from bayplan.core.versions import DEFAULT_GATES
from bayplan.plugin import POD_GROUP_LABEL, POD_GROUPS
from bayplan.running.recording.entries import Setting
from bayplan.running.recording.files import Recording
from bayplan.running.recording.recorder import DecisionRecorder
from bayplan.running.recording.writing import Keep
from bayplan_plugins.network_aware.groups import (
    APP_GROUPS,
    GROUP_LABEL,
    NETWORK_TOPOLOGIES,
    REGION,
    WORKLOAD_LABEL,
    ZONE,
)
from bayplan_plugins.preemption_toleration import MINIMUM, SECONDS
from bayplan_plugins.trimaran.sources import LoadReport, LoadSource, NodeLoad

MARK = "hunter2"
KEY = b"k" * 32
LABEL = f"{MARK}.example/built"


def configuration(plugins, arguments):
    config = [{"name": name, "args": args} for name, args in arguments.items()]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return head | {"profiles": [{"plugins": plugins, "pluginConfig": config}]}


def redacted(arguments):
    """The arguments of plugins in a redacted configuration, and what was left out."""
    redactor = RecordingRedactor(KEY)
    text = redactor.setting(Setting(yaml.safe_dump(configuration({}, arguments)))).configuration
    assert MARK not in text
    parse_configuration(yaml.safe_load(text))
    (profile,) = yaml.safe_load(text)["profiles"]
    kept = {
        config["name"]: {field: value for field, value in config["args"].items() if field not in {"apiVersion", "kind"}}
        for config in profile["pluginConfig"]
    }
    return kept, redactor.left_out


ZONES = {
    "scoringStrategy": {"type": "LeastNUMANodes", "resources": [{"name": "example.com/gpu", "weight": 3}]},
    "cacheResyncPeriodSeconds": 5,
    "discardReservedNodes": False,
    "cache": {"foreignPodsDetect": "None", "resyncMethod": "All", "informerMode": "Shared", "resyncScope": "All"},
    "preemptionMode": "Enabled",
}
KEPT = {
    "LoadVariationRiskBalancing": {"safeVarianceMargin": 0.5, "safeVarianceSensitivity": 2.0},
    "LowRiskOverCommitment": {"smoothingWindowSize": 3, "riskLimitWeights": {"cpu": 0.25, "memory": 1.0}},
    "NodeResourceTopologyMatch": ZONES,
    "NodeResourcesAllocatable": {"mode": "Most", "resources": [{"name": "nvidia.com/gpu", "weight": 7}]},
    "PreemptionToleration": {"minCandidateNodesPercentage": 20, "minCandidateNodesAbsolute": 5},
    "TargetLoadPacking": {
        "defaultRequests": {"cpu": "250m"},
        "defaultRequestsMultiplier": "1.75",
        "targetUtilization": 70,
        "metricProvider": {"type": "Prometheus", "insecureSkipVerify": True},
    },
}


@pytest.mark.parametrize("plugin", KEPT)
def test_arguments_without_names_stay(plugin):
    assert redacted({plugin: KEPT[plugin]}) == ({plugin: KEPT[plugin]}, [])


RENAMED = {
    "namespaces": ("NetworkOverhead", {"namespaces": [MARK, "default"], "networkTopologyName": MARK}),
    "weights": ("NetworkOverhead", {"weightsName": MARK}),
    "order": ("TopologicalSort", {"namespaces": [MARK]}),
    "profile": ("SySched", {"defaultProfileNamespace": MARK, "defaultProfileName": MARK}),
    "power": ("Peaks", {"nodePowerModel": {f"{MARK}-node": {"k0": 1.0, "k1": 2.0, "k2": 0.5}}}),
    "address": ("Peaks", {"WatcherAddress": f"http://{MARK}:2020", "NodePowerModel": {MARK: {"k0": 1.0}}}),
    "watcher": ("TargetLoadPacking", {"watcherAddress": f"http://{MARK}:2020"}),
    "provider": ("TargetLoadPacking", {"metricProvider": {"type": "Prometheus", "address": MARK, "token": MARK}}),
    "key": (
        "NodeMetadata",
        {"metadataKey": LABEL, "metadataSource": "Label", "metadataType": "Number", "scoringStrategy": "Lowest"},
    ),
}


@cases("plugin, arguments", RENAMED)
def test_names_in_arguments_are_replaced(plugin, arguments):
    kept, left_out = redacted({plugin: arguments})
    assert kept[plugin].keys() == arguments.keys()
    assert left_out == []


def test_equal_addresses_stay_equal_and_others_others():
    watched = [{"watcherAddress": f"http://{MARK}:{port}"} for port in (1, 1, 2)]
    names = ("TargetLoadPacking", "LowRiskOverCommitment", "LoadVariationRiskBalancing")
    kept, _ = redacted(dict(zip(names, watched, strict=True)))
    first, second, third = (kept[name]["watcherAddress"] for name in names)
    assert first == second != third


def test_formats_of_times_stay_if_they_are_nothing_else():
    args = {"metadataKey": LABEL, "metadataSource": "Annotation", "metadataType": "Timestamp"}
    args |= {"scoringStrategy": "Newest", "timestampFormat": "Mon, 02 January 2006 15:04:05 MST"}
    assert redacted({"NodeMetadata": args})[0]["NodeMetadata"]["timestampFormat"] == args["timestampFormat"]
    assert (
        "timestampFormat"
        not in redacted({"NodeMetadata": args | {"timestampFormat": f"{MARK} 2006"}})[0]["NodeMetadata"]
    )


def document(api_version, kind, name, **fields):
    metadata = {"name": name, "namespace": "default", "uid": name, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def app_group():
    """The workload `web`, which depends on `db`."""

    def workload(name):
        return {"workload": {"kind": "Deployment", "name": name, "selector": name}}

    workloads = [workload(f"{MARK}-web") | {"dependencies": [workload(f"{MARK}-db") | {"maxNetworkCost": 5}]}]
    return document("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", f"{MARK}-shop", spec={"workloads": workloads})


def topology():
    costs = [{"destination": f"{MARK}-y", "networkCost": 50}]
    parts = [{"topologyKey": ZONE, "originList": [{"origin": f"{MARK}-x", "costList": costs}]}]
    spec = {"weights": [{"name": "UserDefined", "topologyList": parts}]}
    return document("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology", f"{MARK}-costs", spec=spec)


async def placed(here, name, cpu="500m", labels=None, **spec):
    """Create a pod, and wait until nothing changes any more."""
    resources = {"requests": {"cpu": cpu}}
    spec |= {"containers": [{"name": "c", "image": "i", "resources": resources}], "terminationGracePeriodSeconds": 0}
    await here.create(POD, {"metadata": {"name": f"{MARK}-{name}", "labels": labels or {}}, "spec": spec})
    await here.settle()


async def network(here):
    """A pod of `db` runs in one zone, and those of `web` come near it."""
    for number, zone in enumerate("xxyyy"):
        await here.add_node(f"{MARK}-{number}", **{ZONE: f"{MARK}-{zone}", REGION: f"{MARK}-region"})
    for number in range(6):
        labels = {GROUP_LABEL: f"{MARK}-shop", WORKLOAD_LABEL: f"{MARK}-{'web' if number else 'db'}"}
        where = {} if number else {"nodeSelector": {ZONE: f"{MARK}-x"}}
        await placed(here, f"p{number}", labels=labels, **where)
    return {here.nodes()[f"{MARK}-p{number}"] for number in range(6)}


async def tolerance(here):
    """A pod preempts one that doesn't tolerate it, and not one that does."""
    await here.add_node(f"{MARK}-a", "1")
    classes = {"calm": ({SECONDS: "-1", MINIMUM: "100"}, 10), "other": ({}, 10), "odd": ({SECONDS: MARK}, 20)}
    for name, (annotations, value) in classes.items():
        metadata = {"name": f"{MARK}-{name}", "annotations": annotations}
        await here.create(PRIORITY_CLASS, {"metadata": metadata, "value": value})
    await placed(here, "low", priorityClassName=f"{MARK}-calm")
    await placed(here, "next", priorityClassName=f"{MARK}-other")
    await placed(here, "high", priorityClassName=f"{MARK}-odd")
    return here.evicted()


async def metadata(here):
    """The newest node comes first, and of equal ones the largest."""
    room = {"cpu": "1", "memory": "8Gi", "pods": "110"}
    for day in (3, 1, 4, 5, 2):
        labels = {"kubernetes.io/hostname": f"{MARK}-{day}"}
        head = {"name": f"{MARK}-{day}", "labels": labels, "annotations": {LABEL: f"2026-01-0{day}T00:00:00Z"}}
        await here.create(NODE, {"metadata": head, "status": {"allocatable": room, "capacity": room}})
    for number in range(5):
        await placed(here, f"p{number}", "1")
    return [here.nodes()[f"{MARK}-p{number}"].removeprefix(f"{MARK}-") for number in range(5)]


async def loads(here):
    """Pods go where there is a load."""
    for name in "abc":
        await here.add_node(f"{MARK}-{name}", "40")
    for number in range(3):
        await placed(here, f"p{number}")
    return set(here.nodes().values())


def profile(name, *calls):
    spec = {"syscalls": [{"action": "SCMP_ACT_ALLOW", "names": list(calls)}]}
    return document("security-profiles-operator.x-k8s.io/v1beta1", "SeccompProfile", f"{MARK}-{name}", spec=spec)


async def calls(here):
    """Pods come to those that make the same calls."""
    for name in "ab":
        await here.add_node(f"{MARK}-{name}", "40")
    for number, name in enumerate("xyyxyx"):
        path = {"type": "Localhost", "localhostProfile": f"operator/default/{MARK}-{name}.json"}
        await placed(here, f"p{number}", securityContext={"seccompProfile": path})
    nodes = here.nodes()
    return sorted([nodes[f"{MARK}-p{number}"] for number in numbers] for numbers in ((0, 3, 5), (1, 2, 4)))


def pod_group():
    return document("scheduling.x-k8s.io/v1alpha1", "PodGroup", f"{MARK}-crew", spec={"minMember": 2})


async def gang(here):
    """A pod waits for the other one of its group. The new names of the two have the same order."""
    await here.add_node(f"{MARK}-a", "1")
    for name in "ac":
        await placed(here, name, labels={POD_GROUP_LABEL: f"{MARK}-crew"})
    return here.nodes()


def alone(point, name, weight=None):
    return {point: {"enabled": [{"name": name} | ({} if weight is None else {"weight": weight})]}}


NEWEST = {
    "metadataKey": LABEL,
    "metadataSource": "Annotation",
    "metadataType": "Timestamp",
    "scoringStrategy": "Newest",
}
STORIES = {
    "network": (
        network,
        {f"{MARK}-0", f"{MARK}-1"},
        alone("multiPoint", "NetworkOverhead", 100),
        {"NetworkOverhead": {"networkTopologyName": f"{MARK}-costs"}},
        ((APP_GROUPS, app_group()), (NETWORK_TOPOLOGIES, topology())),
    ),
    "tolerance": (
        tolerance,
        {f"{MARK}-next"},
        {"postFilter": {"enabled": [{"name": "PreemptionToleration"}], "disabled": [{"name": "*"}]}},
        {},
        (),
    ),
    "gang": (
        gang,
        {f"{MARK}-a": f"{MARK}-a", f"{MARK}-c": f"{MARK}-a"},
        {
            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            **alone("multiPoint", "Coscheduling"),
        },
        {},
        ((POD_GROUPS, pod_group()),),
    ),
    "calls": (
        calls,
        [[f"{MARK}-a"] * 3, [f"{MARK}-b"] * 3],
        alone("score", "SySched", 100),
        {},
        (
            ("seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io", profile("x", "read", "write")),
            ("seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io", profile("y", "bind", "listen")),
        ),
    ),
    "metadata": (metadata, list("54321"), alone("score", "NodeMetadata", 100), {"NodeMetadata": NEWEST}, ()),
    "loads": (
        loads,
        {f"{MARK}-b"},
        alone("score", "TargetLoadPacking", 100),
        {"TargetLoadPacking": {"watcherAddress": f"http://{MARK}"}},
        (),
    ),
}


HALF_MINUTES = Keep(segment_seconds=30)


async def recorded(folder, parsed, objects, story, *, keep=HALF_MINUTES, redacted=True):
    """Record what the scheduler does in a story, by default redacted. Returns what the story finds."""
    setting = setting_of(to_yaml(parsed, Catalog()), DEFAULT_GATES, (), ())
    loop = asyncio.get_running_loop()
    redactor = RecordingRedactor(KEY) if redacted else None
    recorder = DecisionRecorder(folder, msgspec.structs.replace(setting, seed=0), loop, keep, redactor)
    async with scheduling(*objects, recorder=recorder, build=lambda handle: build_profiles(parsed, handle)) as here:
        found = await story(here)
    recorder.close()
    return found


def check_replay(folder, *, every=1):
    """A replay of each segment, or of some, decides as before, and no name is in a redacted recording."""
    recording = Recording.open(folder)
    assert MARK not in repr(list(recording.entries())) or not recording.manifest.redacted
    for segment in range(0, recording.segments, every):
        replayed = recorded_policy(recording).replay(recording).run(segment=segment)
        assert (replayed.problem, replayed.difference) == ("", None), segment


@cases("story, expected, plugins, arguments, objects", STORIES)
def test_a_redacted_recording_is_replayed_alike(story, expected, plugins, arguments, objects, tmp_path, monkeypatch):
    async def report(source):
        busy = {f"{MARK}-b": NodeLoad(30.0, None, 1.0), f"{MARK}-a": NodeLoad(2.0)}
        return LoadReport(int(source._handle.now().timestamp()), busy)

    monkeypatch.setattr(LoadSource, "report", report)
    parsed = parse_configuration(configuration(plugins, arguments))
    assert in_virtual_time(recorded(tmp_path / "run", parsed, objects, story)) == expected
    check_replay(tmp_path / "run")
