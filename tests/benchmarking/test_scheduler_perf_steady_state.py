"""Pods that are created and deleted again and again, in a cluster that reports them late."""

import asyncio
from types import SimpleNamespace

from bayplan.benchmarking.place import ChangeSignal
from bayplan.benchmarking.pod_operations import create_pods
from bayplan.benchmarking.pods import SeenPod, SeenPods
from bayplan.testing.virtual_time import VirtualTime


class LatePlace:
    """Reports the first pod at once, and the others when the time is up and the first one is bound."""

    def __init__(self):
        self.clock = asyncio.get_running_loop().time
        self.changed = ChangeSignal()
        self.pods = SeenPods(self.clock, self.changed.notify)
        self.deleted = []

    async def create(self, kind, documents, namespace=None):
        names = [f"pod-{index}" for index, _ in enumerate(documents)]
        self._report(names[0], namespace, "node")
        await asyncio.sleep(0.02)
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, self._report, names[0], namespace, "node")
        for name in names[1:]:
            loop.call_later(0.03, self._report, name, namespace, "")
            loop.call_later(0.05, self._bind, name, namespace)
        return names

    async def delete(self, kind, name, namespace=None, *, at_once=False):
        self.deleted.append(name)
        self.pods.remove(f"{namespace}/{name}")

    def _report(self, name, namespace, node):
        self.pods.put(SeenPod(namespace, name, {}, node))

    def _bind(self, name, namespace):
        if name not in self.deleted:
            self._report(name, namespace, "node")


async def run_steadily():
    place = LatePlace()

    async def ensure_namespace(_):
        """There is nothing to create."""

    run = SimpleNamespace(place=place, number=1, ensure_namespace=ensure_namespace, for_scheduler=lambda pod: pod)
    template = SimpleNamespace(document=lambda index, number: {"kind": "Pod"}, varies=False)
    operation = SimpleNamespace(
        fields={"namespace": "steady", "steadyState": True},
        count=lambda: 3,
        duration=lambda _: 0.01,
        template=lambda path: template if path == "podTemplatePath" else None,
    )
    async with asyncio.timeout(5):
        await create_pods(run, operation)
    return place


def test_steady_state_deletes_pods_that_are_seen_after_the_end():
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        place = runner.run(run_steadily())
    assert place.deleted == ["pod-0", "pod-1", "pod-2"]
    assert len(place.pods) == 0
