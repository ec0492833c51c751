"""Redacted recordings: nothing that users named is left in them, and equal names stay equal."""

import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import yaml

from bayplan.answers.history.redacting import key_beside
from bayplan.answers.replay.causes import explained
from bayplan.answers.replay.policies import recorded_policy, setting_of
from bayplan.answers.replay.recorded_plugins import NamedPlugins
from bayplan.answers.replay.redaction import RecordingRedactor
from bayplan.answers.replay.replay import Replay
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import Catalog, load_plugins
from bayplan.core.config.documents import read_document
from bayplan.core.config.loading import read_document_of
from bayplan.core.config.writing import to_yaml
from bayplan.core.versions import DEFAULT_GATES
from bayplan.running.recording import entries
from bayplan.running.recording.entries import (
    AnyEntry,
    PodDecided,
    RecordedMemory,
    RecordedObject,
    RecordedPlace,
    RecordedPlugin,
    RecordedQueued,
    Setting,
)
from bayplan.running.recording.files import Recording, RecordingError, next_run, prepare_recording
from bayplan.running.recording.frames import FrameEncoder
from bayplan.running.recording.places import segment_file
from bayplan.running.recording.summaries import LEFT_OUT
from bayplan.running.recording.writing import FrameWriter, Keep

MARK = "hunter2"
KEY = b"k" * 32
BEGAN = datetime(2026, 3, 2, 3, tzinfo=UTC)
STATUS = (1, (f"no {MARK}",), "NodeAffinity")
WIDGETS = "widgets.v1.acme.example"
VERSIONS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("version-*.tar"))


def marked(kind: str, **fields: object) -> bytes:
    metadata = {
        "name": f"{MARK}-{kind}",
        "uid": f"{MARK}-uid",
        "labels": {MARK: MARK, "app": f"{MARK}-app"},
        "annotations": {MARK: MARK},
        "managedFields": [{"manager": MARK}],
    }
    if kind != "node":
        metadata["namespace"] = f"{MARK}-shop"
    return msgspec.json.encode({"metadata": metadata, **fields})


POD = marked(
    "pod",
    spec={
        "nodeName": f"{MARK}-node",
        "serviceAccountName": MARK,
        "nodeSelector": {f"{MARK}/pool": MARK},
        "tolerations": [{"key": MARK, "value": MARK}],
        "containers": [
            {"name": MARK, "image": MARK, "args": [MARK], "env": [{"name": MARK, "value": MARK}], "command": [MARK]}
        ],
        "volumes": [{"name": MARK, "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": MARK}}}}],
    },
    status={"message": MARK, "conditions": [{"type": MARK, "status": "True", "message": MARK}]},
)
NODE = marked("node", spec={"providerID": MARK, "taints": [{"key": MARK, "value": MARK, "effect": "NoSchedule"}]})
POD_KEY, NODE_NAME, UID = f"{MARK}-shop/{MARK}-pod", f"{MARK}-node", f"{MARK}-uid"

DESK = msgspec.msgpack.encode(
    [
        [
            [
                POD_KEY, "asked", {f"{UID}~0-0": [POD, "default-scheduler", [("ResourceClaim", POD)]]},
                {f"{UID}~0-0": NODE_NAME}, [f"{UID}~0-0"], {UID: f"{UID}~0-0"}, {UID: f"{UID}~0-0"}, 0, None, None,
                [POD_KEY], POD_KEY, False, True, MARK, False,
            ]
        ],
        [POD_KEY],
    ]
)  # fmt: skip
"""The provisioning requests of a checkpoint."""

MARKED: list[AnyEntry] = [
    entries.Changed([1.0], "Pod", POD_KEY, POD),
    entries.Changed([], "Node", NODE_NAME, NODE),
    entries.Changed([], WIDGETS, POD_KEY, POD),
    entries.Changed([], WIDGETS, POD_KEY, None),
    entries.Popped([2.0], 3.0, UID),
    entries.GaveWay([4.0]),
    entries.PlanMade(
        [5.0],
        (PodDecided(UID, POD_KEY, NODE_NAME, "scheduled", f"0/1 nodes: {MARK}", NODE_NAME, (UID,)),),
        (UID,),
        ((UID, NODE_NAME, (UID,)),),
    ),
    entries.Answered([], (NODE_NAME,), {NODE_NAME: STATUS}),
    entries.Answered([], scores={NODE_NAME: 3}),
    entries.Answered([], candidates=((NODE_NAME, (UID,), 1),)),
    entries.Answered([], error=MARK),
    entries.Began([], 1),
    entries.Permitted([], 1, STATUS),
    entries.Replied([], 1, POD, kind="Pod"),
    entries.Replied([], 1, b"[" + NODE + b"," + NODE + b"]", kind="Node"),
    entries.Replied([], 1, POD, kind=WIDGETS),
    entries.Replied([], 1, b"true"),
    entries.Replied([], 1, None, ("ApiError", msgspec.json.encode({"text": MARK, "status": 409, "message": MARK}))),
    entries.Replied([], 1, None, (f"{MARK}Error", msgspec.json.encode({"text": MARK, "reason": MARK}))),
    entries.PreBound([], 1, STATUS),
    entries.Bound([], 1, STATUS),
    entries.Evicted([], 1, True),
    entries.Activated([], (UID,)),
    entries.RequestsOpened([]),
    entries.RequestDue([], POD_KEY),
    entries.Compared([], (True, False)),
    entries.Checkpoint(
        [],
        6.0,
        1,
        1,
        (
            RecordedObject("Pod", POD_KEY, POD, POD),
            RecordedObject("Node", NODE_NAME, NODE),
            RecordedObject(WIDGETS, POD_KEY, POD),
        ),
        ("", NODE_NAME),
        (RecordedPlace(POD_KEY, UID, NODE_NAME, assumed=True),),
        (
            RecordedQueued(
                POD_KEY, "active", 1.0, 1, None, 0, 0, None, ("NodeAffinity",), (), "", was_flushed=False, undone=False,
                message=MARK,
            ),
        ),
        ((POD_KEY, UID, NODE_NAME),),
        ((1, UID),),
        (3, (0,) * 625, None),
        0,
        DESK,
        (
            RecordedMemory("default-scheduler", "Coscheduling", msgspec.json.encode({"failed": {POD_KEY: MARK}})),
            RecordedMemory("default-scheduler", "Mine", msgspec.json.encode(MARK)),
        ),
    ),
    entries.Changed([], "Pod", POD_KEY, None),
    entries.RecordingEnded([]),
]  # fmt: skip
"""Entries of all kinds, with the mark in every text that a user gives."""
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": f"/{MARK}/kubeconfig"},
    "leaderElection": {"resourceName": MARK, "resourceNamespace": MARK},
    "percentageOfNodesToScore": 40,
    "profiles": [
        {
            "schedulerName": "night",
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 7}]}},
            "pluginConfig": [
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": MARK, "operator": "In", "values": [MARK]}]}
                                ]
                            }
                        }
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 3, "topologyKey": MARK, "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    },
                },
                {"name": "DynamicResources", "args": {"filterTimeout": "7s"}},
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "nvidia.com/gpu", "weight": 3}],
                            "requestedToCapacityRatio": {
                                "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                            },
                        }
                    },
                },
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": f"http://{MARK}",
            "filterVerb": MARK,
            "prioritizeVerb": MARK,
            "weight": 2,
            "tlsConfig": {"caFile": MARK},
            "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
        }
    ],
}


def redacted(*marked_entries: AnyEntry, redactor: RecordingRedactor | None = None) -> list[AnyEntry]:
    redactor = redactor or RecordingRedactor(KEY)
    return entries.decode_entries(entries.encode_entries(redactor.entries(list(marked_entries))))


def test_every_kind_of_entry_is_tried():
    assert {type(each) for each in MARKED} == set(get_args(AnyEntry))


def test_no_text_of_a_user_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("bayplan.running.recording.writing.FLUSH_SECONDS", 0.001)
    redactor = RecordingRedactor(KEY)
    setting = Setting(
        yaml.dump(CONFIGURATION),
        "1.36",
        plugins=(RecordedPlugin(f"/{MARK}/policy.py:only", ("only",), "0"),),
        cluster=f"https://{MARK}",
    )
    folder, batches = tmp_path / "run", [list(MARKED)]
    run = prepare_recording(folder, setting, BEGAN, 0.0, redactor)
    writer = FrameWriter(folder, run, Keep(), lambda: batches.pop() if batches else [], lambda: None, redactor)
    writer.start()
    writer.close()
    assert writer.problem == ""
    manifest = (folder / "recording.json").read_bytes()
    (frames,) = (path.read_bytes() for path in folder.glob("*.frames"))
    written = zlib.decompress(frames[20:])
    assert MARK.encode() in entries.encode_entries(MARKED)
    assert MARK.encode() not in written + manifest
    recording = Recording.open(folder)
    assert recording.manifest.redacted
    assert recording.manifest.left_out == [
        f"objects of the kind {WIDGETS}",
        "what plugin Mine remembers at the start of a segment",
    ]
    assert recording.manifest.setting.plugins == (RecordedPlugin("policy.py:only", ("only",), "0"),)
    assert len(list(recording.entries())) == len(MARKED) - 2  # the changes of widgets


def test_equal_names_stay_equal_also_in_the_next_run():
    first, second = redacted(*MARKED), redacted(*reversed(MARKED))
    assert first == second[::-1]
    pod, node, popped, _, plan, *_ = first
    (decided,) = plan.decisions
    info = PodInfo.from_raw(pod.raw)
    assert decided.uid == popped.uid == info.uid == plan.placed[0]
    assert decided.key == pod.key == info.key
    assert decided.node == node.key == info.node_name == decided.nominated
    assert (decided.message, pod.times, popped.at) == (LEFT_OUT, [1.0], 3.0)
    checkpoint = next(each for each in first if isinstance(each, entries.Checkpoint))
    assert checkpoint.rows == ("", node.key)
    assert [(each.kind, each.key) for each in checkpoint.objects] == [("Pod", pod.key), ("Node", node.key)]
    assert next(each for each in first if isinstance(each, entries.Changed) and each.raw is None).key == pod.key
    assert redacted(*MARKED, redactor=RecordingRedactor(b"o" * 32)) != first


def claim(name, owner=""):
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": "1", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "default", "uid": "2", "ownerReferences": owners}
    return entries.Changed([], "PersistentVolumeClaim", f"default/{name}", msgspec.json.encode({"metadata": metadata}))


def test_claim_of_an_ephemeral_volume_may_come_before_its_pod():
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    raw = msgspec.json.encode(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [], "volumes": volumes}}
    )
    gone = entries.Changed([], "PersistentVolumeClaim", "default/web-data", None)
    made, pod, removed, other = redacted(
        claim("web-data", "web"), entries.Changed([], "Pod", "default/web", raw), gone, claim("web-data")
    )
    volume = msgspec.json.decode(pod.raw)["spec"]["volumes"][0]["name"]
    assert made.key == removed.key == f"{pod.key}-{volume}"
    assert other.key != made.key


def of_devices(kind, name, **spec):
    return entries.Changed([], kind, name, msgspec.json.encode({"metadata": {"name": name}, "spec": spec}))


def test_texts_of_devices_that_a_selector_reads_stay():
    device = {"name": "gpu-0", "attributes": {"model": {"string": "a100"}, "serial": {"string": "s-1"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slices = of_devices("ResourceSlice", "s", driver="example.com", pool=pool, nodeName="n", devices=[device])
    models = of_devices(
        "DeviceClass", "c", selectors=[{"cel": {"expression": "device.attributes['x'].model == 'a100'"}}]
    )
    serials = of_devices(
        "DeviceClass", "d", selectors=[{"cel": {"expression": "device.attributes['x'].serial == '1'"}}]
    )
    redactor = RecordingRedactor(KEY)
    found = redacted(slices, models, redactor=redactor)
    assert b"a100" in found[0].raw
    assert b"s-1" not in found[0].raw
    assert redactor.left_out == []
    redacted(serials, redactor=redactor)
    assert redactor.left_out == ["texts of the device attribute serial, which a selector read only later"]


def test_configuration_decides_as_before():
    redactor = RecordingRedactor(KEY)
    text = redactor.setting(Setting(yaml.dump(CONFIGURATION))).configuration
    before, after = (
        yaml.safe_load(to_yaml(read_document_of(read_document(each, "c.yaml"), Catalog()).configuration, Catalog()))
        for each in (yaml.dump(CONFIGURATION), text)
    )
    assert MARK not in text
    assert redactor.left_out == []
    (node,) = redacted(entries.Changed([], "Node", NODE_NAME, NODE))
    (taint,) = msgspec.json.decode(node.raw)["spec"]["taints"]
    assert text.count(taint["key"]) == 2  # the affinity and the constraint name the key of the taint, and of the label
    assert taint["key"] in msgspec.json.decode(node.raw)["metadata"]["labels"]
    for document in (before, after):
        del document["clientConnection"], document["leaderElection"], document["extenders"]
        for config in document["profiles"][0]["pluginConfig"]:
            if config["name"] in {"NodeAffinity", "PodTopologySpread"}:
                del config["args"]
    assert after == before


def test_arguments_of_other_plugins_are_left_out():
    profile = {"schedulerName": "a", "pluginConfig": [{"name": "Mine", "args": {"tier": MARK}}]}
    redactor = RecordingRedactor(KEY)
    setting = redactor.setting(Setting(yaml.dump({"profiles": [profile]})))
    assert MARK not in setting.configuration
    assert redactor.left_out == ["the arguments of plugin Mine"]


def test_plugins_are_found_by_their_hash(tmp_path):
    policy = tmp_path / MARK / "policy.py"
    policy.parent.mkdir()
    policy.write_text("from bayplan import filter_plugin\n\n@filter_plugin\ndef only(pod, node):\n    return None\n")
    plugins = load_plugins([str(policy)])
    text = yaml.dump({"apiVersion": CONFIGURATION["apiVersion"], "kind": CONFIGURATION["kind"]})
    setting = setting_of(text, DEFAULT_GATES, [str(policy)], plugins)
    prepare_recording(tmp_path / "run", setting, BEGAN, 0.0, RecordingRedactor(KEY))
    recording = Recording.open(tmp_path / "run")
    with pytest.raises(RecordingError, match=r"plugin only \(policy\.py, sha256 \w+\): name your own copy"):
        recorded_policy(recording)
    found = recorded_policy(recording, NamedPlugins([str(policy)]))
    assert [plugin.name for plugin in found.plugins] == ["only"]
    assert found.changed == ()


def test_key_is_beside_the_folder_also_of_the_current_one(tmp_path, monkeypatch):
    (tmp_path / "night").mkdir()
    monkeypatch.chdir(tmp_path / "night")
    key = key_beside(Path())
    assert key == key_beside(tmp_path / "night")
    assert (tmp_path / "night.redaction-key").read_bytes() == key


def test_runs_in_a_folder_are_all_redacted_or_none(tmp_path):
    prepare_recording(next_run(tmp_path / "n", redacted=True), Setting(), BEGAN, 0.0, RecordingRedactor(KEY))
    assert next_run(tmp_path / "n", redacted=True).name == "run-000002"
    with pytest.raises(RecordingError, match="are redacted, and can't be continued without --record-redact"):
        next_run(tmp_path / "n")
    prepare_recording(next_run(tmp_path / "o"), Setting(), BEGAN, 0.0)
    with pytest.raises(RecordingError, match="are not redacted, and can't be continued with --record-redact"):
        next_run(tmp_path / "o", redacted=True)


def redacted_version(folder: Path, change=lambda entry: entry) -> Recording:
    """The recording of tests/data, redacted."""
    recording, redactor = Recording.open(VERSIONS[-1]), RecordingRedactor(KEY)
    manifest = recording.manifest
    frames = FrameEncoder(prepare_recording(folder, manifest.setting, manifest.began, manifest.monotonic, redactor))
    changed = [change(each) for each in redactor.entries(recording.entries())]
    segment_file(folder, 1).write_bytes(frames.encode(changed))
    return Recording.open(folder)


def test_replay_makes_the_same_decisions(tmp_path):
    recording = redacted_version(tmp_path / "run")
    found = recorded_policy(recording).replay(recording).run()
    assert (found.difference, found.problem, found.decisions, found.complete) == (None, "", 13, True)


def test_difference_has_the_redaction_as_a_cause(tmp_path):
    def nowhere(entry):
        if isinstance(entry, entries.PlanMade):
            return entries.PlanMade([], tuple(msgspec.structs.replace(each, node="") for each in entry.decisions))
        return entry

    recording = redacted_version(tmp_path / "run", nowhere)
    policy = recorded_policy(recording)
    run: Replay = policy.replay(recording)
    found = run.run()
    assert found.difference is not None
    causes = explained(found.difference, run, (), policy.changed).causes
    assert any(cause.startswith("the recording is redacted: names have another order") for cause in causes)
