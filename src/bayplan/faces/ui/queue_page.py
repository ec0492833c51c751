"""The pages about pending pods: the queue by cause, and the changes that would place most."""

from __future__ import annotations

from typing import NamedTuple

from aiohttp import web

from bayplan.answers.insight.answers import Progress
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.questions.freeing import Freeing, freeing
from bayplan.answers.insight.questions.pending import PendingPods
from bayplan.faces.ui.app import PageRequest
from bayplan.faces.ui.filters import check_namespace
from bayplan.faces.ui.packing import packed
from bayplan.faces.ui.pages import FEW_NODES
from bayplan.faces.ui.reports import WorkloadCount, first_helps, workloads_of

FEW_PODS = 500
"""The queue of a cluster with at most FEW_NODES and FEW_PODS pending shows at once which changes would place most."""
QUEUE_PAUSE = 5
"""Seconds between two checks for changes."""


class _Queue(NamedTuple):
    """What the queue shows. `freeing`: None where it takes long. `owners`: the workloads of each cause."""

    pending: PendingPods
    freeing: Freeing | None
    entries: dict[str, str]
    owners: list[tuple[WorkloadCount, ...]]
    namespaces: list[str]


async def queue_page(visit: PageRequest) -> web.Response:
    """Return the pending pods by cause, of a namespace or of all."""
    namespace = visit.query.get("namespace", "").strip()

    def ask(insight: Insight, progress: Progress) -> _Queue:
        known = check_namespace(insight, namespace)
        found = insight.explain_all(namespace or None, free=False, progress=progress)
        small = len(insight.world.state.nodes) <= FEW_NODES and found.count <= FEW_PODS
        best = _freeing(insight, namespace, progress) if small else None
        changes = first_helps(found) + [each.change for each in (best.best if best is not None else ())]
        owners = [workloads_of(insight.world, cause.pods) for cause in found.causes]
        return _Queue(found, best, packed(insight, changes), owners, known)

    found = await visit.ask(("queue", namespace), ask)
    return visit.page(
        "queue.html",
        pending=found.pending,
        freeing=found.freeing,
        entries=found.entries,
        owners=found.owners,
        namespace=namespace,
        namespaces=found.namespaces,
        every=QUEUE_PAUSE,
        title="Queue",
    )


async def freeing_page(visit: PageRequest) -> web.Response:
    """Return the single changes that place the most pending pods: the part of the queue that takes longest."""
    namespace = visit.query.get("namespace", "").strip()

    def ask(insight: Insight, progress: Progress) -> tuple[Freeing, dict[str, str]]:
        check_namespace(insight, namespace)
        best = _freeing(insight, namespace, progress)
        return best, packed(insight, (each.change for each in best.best))

    best, entries = await visit.ask(("freeing", namespace), ask)
    title = "What would place most"
    return visit.page("freeing.html", freeing=best, entries=entries, namespace=namespace, every=0, title=title)


def _freeing(insight: Insight, namespace: str, progress: Progress) -> Freeing:
    pods = (pod for pod in insight.world.pending.values() if namespace in {"", pod.namespace})
    return freeing(insight.world, pods, progress)
