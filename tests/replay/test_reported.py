"""The cluster of a recording without a replay is the one that a replay finds, while no binding fails."""

from pathlib import Path

import pytest

from bayplan.answers.replay.moments import decisions_of, snapshot_at_end
from bayplan.answers.replay.policies import recorded_policy
from bayplan.answers.replay.recorded_moments import RecordingMoments
from bayplan.answers.replay.reported import reported_cluster
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.cluster.pod_decoder import PodDecoder
from bayplan.running.recording.files import Recording

PATHS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("version-*.tar"))


def placed(snapshot):
    decoder = PodDecoder()
    pods = {key: decoder.decode(raw) for key, raw in snapshot.documents[POD].items()}
    return {key: (pod.uid, pod.node_name, pod.terminating) for key, pod in pods.items()}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_reported_cluster_is_the_replayed_one(path):
    run = Recording.open(path)
    moments = RecordingMoments([run])
    for number, decided in enumerate(decisions_of(run)):
        found, replayed = reported_cluster(run, decided), moments.snapshot(number)
        assert placed(found) == placed(replayed), number
        assert found.documents[NODE].keys() == replayed.documents[NODE].keys()
        assert found.taken == replayed.taken
    moments.close()
    end = snapshot_at_end(recorded_policy(run).replay(run))
    assert placed(reported_cluster(run)) == placed(end)
    assert any(node for _, node, _ in placed(end).values())
