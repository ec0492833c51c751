"""Why there is no pod of a name to ask about: it can't be read, has ended, was preempted, or never was there."""

from __future__ import annotations

from bayplan.answers.insight.owners import others_called
from bayplan.answers.insight.questions.recorded_events import preempted_by
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD


def why_absent(snapshot: Snapshot, world: World, key: str) -> str:
    """Return why the pod `namespace/name` isn't in the world of a snapshot."""
    if (POD, key) in world.contents.left_out:
        return f"pod {key} cannot be read: {world.contents.left_out[POD, key]}"
    if key in snapshot.of_kind(POD):
        return f"pod {key} has terminated"
    preempted = preempted_by(snapshot, world, key)
    if preempted:
        return f"pod {key} is gone: {preempted}"
    namespace, _, name = key.rpartition("/")
    hint = others_called(snapshot, world.state.objects[POD], POD, namespace, name)
    return f"there is no pod {key} in {snapshot.title}{hint}"
