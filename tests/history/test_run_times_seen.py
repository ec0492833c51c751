"""The run times of a history: of pods that ended by themselves, by what they have in common."""

from tests.history.small_histories import at, node, pod, write_small

from bayplan.answers.history.following import Following
from bayplan.answers.history.reading import History
from bayplan.answers.history.run_times import run_times_seen
from bayplan.answers.history.writing import write_history
from bayplan.core.api.kinds import NODE, POD


def run_of(job, number):
    document = pod(f"{job}-{number}")
    metadata = document["metadata"]
    metadata["labels"] = {"app": "train", "job-name": f"{job}-{number}"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"{job}-{number}", "controller": True}
    metadata["ownerReferences"] = [owner]
    return document


def lives():
    """Three runs of a job, one of which is evicted, and a pod that ran before the history began."""
    following = Following()
    yield from following.put(NODE, node("a"), at(0), initial=True)
    old = pod("old", on="a", phase="Running", startTime="2026-03-02T07:59:30Z")
    yield from following.put(POD, old, at(0), initial=True)
    for number in range(3):
        document = run_of("train", number)
        yield from following.put(POD, document, at(10))
        placed = {**document, "spec": {**document["spec"], "nodeName": "a"}}
        yield from following.put(POD, placed, at(12))
        reason = {"reason": "Preempting"} if number == 2 else {}
        ended = {**placed, "status": {"phase": "Failed" if reason else "Succeeded", **reason}}
        yield from following.put(POD, ended, at(20 + 30 * number))
    yield from following.put(POD, {**old, "status": {**old["status"], "phase": "Succeeded"}}, at(90))


def test_pods_that_ended_by_themselves_say_how_long_their_like_run(tmp_path):
    write_small(tmp_path / "history")
    assert run_times_seen(History.open(tmp_path / "history")) == {"replicaset default/web": [59.0]}


def test_runs_of_a_job_are_alike_by_their_labels_and_evicted_pods_say_nothing(tmp_path):
    write_history(tmp_path / "history", lives(), source="a test")
    assert run_times_seen(History.open(tmp_path / "history")) == {
        "job default/train-0": [8.0],
        "job default/train-1": [38.0],
        "default, priority 7, app=train": [8.0, 38.0],
        "replicaset default/web": [120.0],
    }
