"""Timelines for tests: a world, what happens to it, and an observer that writes down what it learns."""

from bayplan.answers.simulation.happenings import NodeComes
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.testing import make_node
from bayplan.testing.builders import CREATED

OWNED = ("apps/v1", "ReplicaSet", "web")


class Diary(TimelineObserver):
    """`lines`: what happened, as `seconds what pod [node]`."""

    def __init__(self):
        self.lines = []

    def begin(self, timeline):
        self.timeline = timeline

    def note(self, *words):
        self.lines.append(" ".join([f"{self.timeline.now:.3f}", *filter(None, words)]))

    def bound(self, pod, life):
        if hasattr(self, "timeline"):
            self.note("bound", pod.name, life.node)

    def evicted(self, pod, life):
        self.note(life.leaving.value, pod.name, life.node)

    def gone(self, pod, life):
        self.note("gone", pod.name, life.node)

    def of(self, *words):
        return [line for line in self.lines if line.split()[1] in words]


def timeline_of(happenings, *, until=3600.0, nodes=(), observers=(), world=None, **options):
    """Run a timeline. Returns it and its diary."""
    diary = Diary()
    world = world or World(**{key: options.pop(key) for key in ("configuration", "plugins") if key in options})
    timeline = Timeline(world, CREATED, (diary, *observers), **options)
    given = [node if not isinstance(node, str) else make_node(node) for node in nodes]
    timeline.run([*(NodeComes(0.0, node) for node in given), *happenings], until)
    return timeline, diary


def pods_on(timeline):
    """Pod name -> node, for all pods that exist."""
    return {pod.name: pod.node_name for pod in timeline.world.state.objects[POD].values()}
