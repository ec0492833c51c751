"""Recordings of running schedulers, and what `bayplan replay` and `bayplan why` make of them.

All other end-to-end tests replay what their schedulers did, too: see `running.running_scheduler`.
"""

from __future__ import annotations

import json
import random
import re
import signal
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner
from moody import moody
from running import FAST, bayplan_run, unrecorded_scheduler
from tests.support.waiting import until
from workloads import NAME, pod, pods

from bayplan.answers.replay.causes import explained
from bayplan.answers.replay.replay import Replay
from bayplan.core.api.kinds import PRIORITY_CLASS
from bayplan.core.config import default_profile
from bayplan.faces.cli import main
from bayplan.running.recording import writing
from bayplan.running.recording.entries import Changed, Setting
from bayplan.running.recording.files import Recording, RecordingError
from bayplan.running.recording.recorder import DecisionRecorder

MOST_ALLOCATED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": NAME,
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 100}]}
                    },
                },
            ],
        }
    ],
}

PRIVATE = (b"hunter2", b'"node-0"', b"127.0.0.1", b"team")


def bayplan(*arguments, status=0):
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == status, result.output
    return result.output


def profiles(*plugins):
    return lambda handle: {NAME: default_profile(NAME, handle, plugins)}


@asynccontextmanager
async def recorded(cluster, folder, *plugins):
    setting = Setting(seed=3, initial_backoff=FAST.initial_backoff, max_backoff=FAST.max_backoff)
    recorder = DecisionRecorder(folder, setting, FAST.clock)
    settings = type(FAST)(**{name: getattr(FAST, name) for name in FAST.__slots__} | {"seed": 3})
    try:
        async with unrecorded_scheduler(
            cluster.access, build_profiles=profiles(*plugins), settings=settings, recorder=recorder
        ) as scheduler:
            yield scheduler, recorder
    finally:
        recorder.close()


async def preempt(cluster):
    """Fill three nodes, and let a pod preempt. Returns the keys of the victims."""
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await cluster.add_nodes(3, cpu="2")
    await cluster.create_fast(pods("low", 6, "1"))
    observer = cluster.observer
    await observer.until(lambda: all(observer.node_of(key) for key in observer.pods), within=60)
    before = set(observer.pods)
    await cluster.create(pod("important", "2", priorityClassName="high"))
    await observer.until(lambda: observer.node_of("default/important"))
    return sorted(before - set(observer.pods))


@pytest.fixture
async def run(cluster, tmp_path):
    """A recording of `bayplan run`: its folder, and the victims of a preemption."""
    folder = tmp_path / "night"
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--record", folder, "--seed", "5") as running:
        victims = await preempt(cluster)
        running.signal(signal.SIGTERM)
        assert await running.ended() == 0
    return folder, victims


async def test_recording_of_bayplan_run_answers_questions(run, tmp_path):
    folder, victims = run
    assert "all are the same" in bayplan("replay", folder)
    document = json.loads(bayplan("replay", folder, "-o", "json"))
    assert document["difference"] is None
    assert document["complete"]
    listed = bayplan("replay", folder, "--list")
    assert len(re.findall(r"default/low-\d+: node node-\d", listed)) >= 6
    assert len(victims) == 2

    answer = bayplan("why", victims[0], "--recording", folder, "--evicted")
    assert re.match(rf"pod {victims[0]} was evicted from node node-\d, with pod {victims[1]}, to make room for", answer)
    assert "Insufficient cpu" in answer
    answer = bayplan("why", "low-0000", "--recording", folder, "--moved")
    assert re.search(r"pod default/low-0000 was placed on node node-\d", answer)
    answer = bayplan("why", "important", "--recording", folder)
    assert re.search(r"\n  node node-\d\n  to get there, it evicted pods \S+, \S+ from node node-\d at ", answer)
    assert all(victim in answer for victim in victims)
    assert "another scheduler" not in answer
    assert "default/important: it was placed on node node-" in answer
    lines = bayplan("replay", folder, "--list", "-o", "json").splitlines()
    assert [sorted(each["victimNames"]) for line in lines if (each := json.loads(line))["victims"]] == [sorted(victims)]

    saved = tmp_path / "before.bayplan"
    stopped = bayplan("replay", folder, "--preemption-of", victims[0], "--save", saved)
    assert "it preempts 2 pods on node" in stopped
    assert "would preempt" in bayplan("explain", "important", "--from", saved)

    history = tmp_path / "history"
    assert "7 pods and 3 nodes" in bayplan("history", "import", folder, "--to", history)
    shown = bayplan("history", "show", history)
    assert re.search(r"recording of the scheduler of https?://127\.0\.0\.1", shown)
    assert "7 pods in 1 segments" in shown

    assert bayplan("history", "show", folder).splitlines()[1:3] == shown.splitlines()[1:3]
    assert "recorded decisions equal" in bayplan("compare", "--history", folder, "--set", "ImageLocality.weight=2")

    file = tmp_path / "night.tar"
    bayplan("replay", folder, "--pack", file)
    assert bayplan("replay", file, "--list") == listed


async def test_every_question_can_be_asked_about_a_moment(run, tmp_path):
    folder, _ = run
    listed = bayplan("replay", folder, "--list")
    date, moment, node = re.search(
        r"(\S+) (\S+) default/important: .*it preempts 2 pods on node (\S+)", listed
    ).groups()
    just_before = (datetime.fromisoformat(f"{date}T{moment}Z") - timedelta(microseconds=1)).isoformat()
    assert "would preempt" in bayplan("explain", "important", "--from", folder, "--at", just_before)
    assert "would preempt" not in bayplan("explain", "important", "--from", folder)
    assert node in bayplan("explain", "important", "--from", folder)
    file = tmp_path / "night.tar"
    bayplan("replay", folder, "--pack", file)
    assert bayplan("explain", "important", "--from", file) == bayplan("explain", "important", "--from", folder).replace(
        str(folder), str(file)
    )
    bayplan("what-if", "--add-nodes", "1xlike:node-0", "--from", folder)
    assert "use it with --from" in bayplan("explain", "important", "--at", "03:12", status=2)


async def test_another_policy_is_asked_at_the_same_moments(run, tmp_path):
    folder, _ = run
    config = tmp_path / "most.yaml"
    config.write_text(yaml.dump(MOST_ALLOCATED))
    own = tmp_path / "own.yaml"
    own.write_text(Recording.open(folder).manifest.setting.configuration)
    same = json.loads(bayplan("replay", folder, "--config", own, "-o", "json"))
    assert same["asked"] == same["same"] >= 7
    assert same["differences"] == []
    other = json.loads(bayplan("replay", folder, "--config", config, "-o", "json"))
    # The first pod of a node is followed by the second; the recorded scheduler spread them.
    assert other["other_node"] >= 2
    assert other["asked"] == other["same"] + other["other_node"]
    assert {each["pod"] for each in other["differences"]} <= {f"default/low-{number:04d}" for number in range(6)}
    assert "chosen another node" in bayplan("replay", folder, "--config", config)
    bayplan("replay", folder, "--emulated-version", "1.37")
    assert "--emulated-version: unknown version" in bayplan("replay", folder, "--emulated-version", "2.0", status=2)


async def test_a_second_run_is_recorded_beside_the_first(run, cluster):
    folder, _ = run
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--record", folder) as running:
        await cluster.add_node("another")
        await cluster.create(pod("later", "1m"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/later"))
        running.signal(signal.SIGTERM)
        await running.ended()
    assert sorted(each.name for each in folder.iterdir()) == ["run-000001", "run-000002"]
    assert bayplan("replay", folder).count("all are the same") == 2
    assert "default/later" in bayplan("why", "later", "--recording", folder)


async def test_redacted_recording_has_no_names_and_can_be_replayed(cluster, tmp_path):
    folder = tmp_path / "night"
    await cluster.add_nodes(2)
    pods = []
    for number in range(2):
        async with bayplan_run(
            "--kubeconfig", cluster.scheduler_kubeconfig, "--record", folder, "--record-redact"
        ) as running:
            secret = pod(f"hunter2-{number}", labels={"team": "hunter2"})
            secret["spec"]["containers"][0]["env"] = [{"name": "KEY", "value": "hunter2"}]
            await cluster.create(secret)
            await cluster.observer.until(lambda n=number: cluster.observer.node_of(f"default/hunter2-{n}"))
            running.signal(signal.SIGTERM)
            assert await running.ended() == 0
        run = folder / f"run-{number + 1:06}"
        raw = [each.raw for each in Recording.open(run).entries() if isinstance(each, Changed) and each.raw]
        pods.append({each.key for each in Recording.open(run).entries() if getattr(each, "kind", "") == "Pod"})
        assert not any(word in text for text in (*raw, (run / "recording.json").read_bytes()) for word in PRIVATE)
    assert len(pods[0]) == 1
    assert len(pods[1]) == 2
    assert pods[0] < pods[1]  # the second run has the first pod, with the same name
    assert bayplan("replay", folder).count("all are the same") == 2
    (name,) = pods[0]
    assert re.search(r"placed on node node-\w{16}\n", bayplan("why", name, "--recording", folder, "--moved"))
    assert name in bayplan("explain", name, "--from", folder)
    assert "2 pods in 1 segments" in bayplan("history", "show", folder)
    assert "1 recorded decision equal" in bayplan("compare", "--history", folder, "--set", "ImageLocality.weight=2")
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--record", folder) as running:
        assert await running.ended() == 2
    assert running.logged("can't be continued without --record-redact")
    assert "use them with --record" in bayplan("run", "--record-redact", status=2)


async def test_killed_scheduler_leaves_a_recording(cluster, tmp_path):
    folder = tmp_path / "night"
    await cluster.add_nodes(2)
    async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig, "--record", folder) as running:
        await cluster.create_fast(pods("p", 10))
        await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))
        await until(lambda: any(folder.rglob("*.frames")))
        await until(lambda: bayplan("replay", folder, "--list").count("default/p-") == 10)
        await running.kill()
    answer = bayplan("replay", folder)
    assert "10 decisions" in answer
    assert "it was killed, or it still runs" in answer


async def test_files_that_end_anywhere_can_be_replayed(cluster, tmp_path):
    async with recorded(cluster, tmp_path / "run"):
        await preempt(cluster)
    (file,) = (tmp_path / "run").glob("*.frames")
    whole, rng = file.read_bytes(), random.Random(7)
    for _ in range(20):
        file.write_bytes(whole[: rng.randrange(len(whole))])
        replayed = replay_of(tmp_path / "run")
        assert replayed.difference is None
        assert not replayed.problem or (replayed.entries == 0 and "is empty" in replayed.problem)


def replay_of(folder):
    return Replay(Recording.open(folder), profiles()).run()


async def test_flipped_bits_are_found_and_named(cluster, tmp_path):
    async with recorded(cluster, tmp_path / "run"):
        await preempt(cluster)
    (file,) = (tmp_path / "run").glob("*.frames")
    whole, rng = file.read_bytes(), random.Random(7)
    for _ in range(20):
        position = rng.randrange(8, len(whole))
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        replayed = replay_of(tmp_path / "run")
        assert replayed.difference is None
        problem = re.search(r"decisions-000001.frames is damaged in frame \d+, at byte (\d+)", replayed.problem)
        cut = not replayed.problem and not replayed.complete  # a length that reaches beyond the end looks like a cut
        assert cut or (problem and int(problem[1]) <= position)


async def test_plugin_that_reads_the_clock_is_named(cluster, tmp_path):
    await cluster.add_nodes(3)
    async with recorded(cluster, tmp_path / "run", moody):
        await cluster.create_fast(pods("p", 40, "1m"))
        await cluster.observer.until(lambda: all(map(cluster.observer.node_of, cluster.observer.pods)))
    replay = Replay(Recording.open(tmp_path / "run"), profiles(moody))
    found = replay.run()
    assert found.difference is not None  # 40 pods, and the clock says something else now
    difference = explained(found.difference, replay, [moody], [])
    assert difference.causes == ("plugin Moody reads the clock (time.monotonic_ns), which is not recorded",)


async def test_full_disk_ends_the_recording_and_not_the_scheduler(cluster, tmp_path, monkeypatch, caplog):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(writing, "segment_file", lambda _folder, _number: full)
    await cluster.add_nodes(1)
    async with recorded(cluster, tmp_path / "run") as (_, recorder):
        await cluster.create(pod("first"))
        await until(lambda: "the recording waits" in caplog.text)
        await cluster.create(pod("second"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/second"))
    assert "No space left on device" in recorder.problem  # it was tried once more at the end
    assert caplog.text.count("the recording waits, and scheduling goes on") == 1
    assert caplog.text.count("the recording has ended") == 1


async def test_changed_plugin_is_named(cluster, tmp_path):
    policy = tmp_path / "policy.py"
    text = (
        "from bayplan import filter_plugin\n\n"
        "@filter_plugin\ndef only(pod, node):\n    return None if node.name {} 'node-0' else 'no'\n"
    )
    policy.write_text(text.format("=="))
    await cluster.add_nodes(2)
    folder = tmp_path / "night"
    async with bayplan_run(
        "--kubeconfig", cluster.scheduler_kubeconfig, "--record", folder, "--plugin", policy
    ) as running:
        await cluster.create(pod("p"))
        await cluster.observer.until(lambda: cluster.observer.node_of("default/p"))
        running.signal(signal.SIGTERM)
        await running.ended()
    assert "was recorded with plugin only (policy.py, sha256 " in bayplan("replay", folder, status=2)
    assert "all are the same" in bayplan("replay", folder, "--plugin", policy)
    for command in (["explain", "p", "--from", folder], ["why", "p", "--recording", folder]):
        assert "node-0" in bayplan(*command, "--plugin", policy)
    former = tmp_path / "former" / "policy.py"
    former.parent.mkdir()
    former.write_bytes(policy.read_bytes())
    policy.write_text(text.format("!="))
    changed = bayplan("replay", folder, "--plugin", policy, status=2)
    assert "has plugin only (policy.py, sha256 " in changed
    assert "name the file as it was when it was recorded" in changed
    both = bayplan("replay", folder, "--plugin", former, "--plugin", policy)
    assert "chosen another node:                           1" in both
    usage = bayplan("usage", "--from", folder)
    assert "1 pod" in usage or "default" in usage
    policy.unlink()
    assert "no such file" in bayplan("replay", folder, "--plugin", policy, status=2)


async def test_bad_input_is_one_line(run, tmp_path):
    folder, _ = run
    manifest = folder / "run-000001" / "recording.json"
    assert "the recording has no decision about pod default/nobody; it goes from" in bayplan(
        "why", "nobody", "--recording", folder, status=2
    )
    assert "the recording has no decision after" in bayplan(
        "replay", folder, "--until", "2100-01-01T00:00:00Z", status=2
    )
    assert "--at 'noon': expected a time" in bayplan("why", "x", "--recording", folder, "--at", "noon", status=2)
    assert "is no recording" in bayplan(
        "replay", tmp_path / "night" / "run-000001" / "decisions-000001.frames", status=2
    )
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"version": 2', '"version": 99'))
    assert "has version 99 of the format" in bayplan("replay", folder, status=2)
    manifest.write_text(whole[: len(whole) // 2])
    assert "recording.json is damaged" in bayplan("replay", folder, status=2)
    with pytest.raises(RecordingError, match="is not empty"):
        DecisionRecorder(folder, Setting(), FAST.clock)
