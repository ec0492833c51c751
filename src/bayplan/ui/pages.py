"""The pages about the cluster as it is: the bay plan, the queue, pods, nodes and the search."""

from __future__ import annotations

from typing import NamedTuple

from aiohttp import web

from bayplan.api.kinds import NODE, POD
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight import Insight, QuestionError
from bayplan.insight.answers import Progress
from bayplan.insight.questions.explain import Explanation
from bayplan.insight.questions.freeing import Freeing, freeing
from bayplan.insight.questions.pending import PendingPods
from bayplan.insight.questions.why_not import WhyNot
from bayplan.ui.about import about
from bayplan.ui.app import Visit
from bayplan.ui.bay_plan import BayPlan, bay_plan
from bayplan.ui.filters import check_namespace
from bayplan.ui.packing import packed
from bayplan.ui.reports import PodRow, WorkloadCount, node_report, pod_row, search, waiting_pods, workloads_of

FEW_NODES = 600
SMALL_PAUSE, LARGE_PAUSE = 2, 10
"""Seconds between two checks for changes, for at most FEW_NODES nodes and for more."""
FEW_PODS = 500
"""The queue of a cluster with at most FEW_NODES and FEW_PODS pending shows at once which changes would place most."""
POD_PAUSE, QUEUE_PAUSE = 3, 5
"""Seconds between two checks of a pod or a node, and of the queue."""
WAITING_SHOWN = 24
"""The most pending pods to show next to the plan."""


async def plan_page(visit: Visit) -> web.Response:
    """Return the bay plan and the list of pending pods; with `?namespace=`, only its pods count."""
    resource, by = visit.query.get("resource", "cpu"), visit.query.get("by", "").strip()
    namespace = visit.query.get("namespace", "").strip()

    def draw(insight: Insight, _: Progress) -> tuple[BayPlan, list[PodRow], int, list[str]]:
        known = check_namespace(insight, namespace)
        pending = waiting_pods(insight.world, namespace)
        plan = bay_plan(insight.world, resource, by=by, namespace=namespace)
        return plan, [pod_row(pod) for pod in pending[:WAITING_SHOWN]], len(pending), known

    plan, waiting, pending, known = await visit.ask(("plan", resource, by, namespace), draw)
    return visit.page(
        "plan.html",
        plan=plan,
        by=by,
        namespace=namespace,
        namespaces=known,
        waiting=waiting,
        pending=pending,
        every=SMALL_PAUSE if plan.nodes <= FEW_NODES else LARGE_PAUSE,
        title="Bay plan",
    )


async def queue_page(visit: Visit) -> web.Response:
    """Return the pending pods by cause, of a namespace or of all."""
    namespace = visit.query.get("namespace", "").strip()

    def ask(insight: Insight, progress: Progress) -> _Queue:
        known = check_namespace(insight, namespace)
        found = insight.explain_all(namespace or None, free=False, progress=progress)
        small = len(insight.world.state.nodes) <= FEW_NODES and found.count <= FEW_PODS
        best = freeing(insight.world, _pending_in(insight, namespace), progress) if small else None
        helps = [each for cause in found.causes if cause.example is not None for each in cause.example.help[:1]]
        changes = [each.change for each in helps] + [each.change for each in (best.best if best is not None else ())]
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


class _Queue(NamedTuple):
    """What the queue shows. `freeing`: None where it takes long. `owners`: the workloads of each cause."""

    pending: PendingPods
    freeing: Freeing | None
    entries: dict[str, str]
    owners: list[tuple[WorkloadCount, ...]]
    namespaces: list[str]


def _pending_in(insight: Insight, namespace: str) -> list[PodInfo]:
    pending = insight.world.pending.values()
    return [pod for pod in pending if namespace in {"", pod.namespace}]


async def freeing_page(visit: Visit) -> web.Response:
    """Return the single changes that place the most pending pods: the part of the queue that takes longest."""
    namespace = visit.query.get("namespace", "").strip()

    def ask(insight: Insight, progress: Progress) -> tuple[Freeing, dict[str, str]]:
        check_namespace(insight, namespace)
        best = freeing(insight.world, _pending_in(insight, namespace), progress)
        return best, packed(insight, (each.change for each in best.best))

    best, entries = await visit.ask(("freeing", namespace), ask)
    return visit.page(
        "freeing.html",
        freeing=best,
        entries=entries,
        namespace=namespace,
        every=0,
        title="What would place most",
    )


async def pod_page(visit: Visit, namespace: str, name: str) -> web.Response:
    """Return the explanation of a pod; with `?node=`, also what keeps it from that node."""
    key, node = f"{namespace}/{name}", visit.query.get("node", "").strip()

    def ask(insight: Insight, progress: Progress) -> tuple[Explanation, PodRow, dict[str, str]]:
        found = insight.explain(key, progress=progress)
        return found, pod_row(insight.pod(key)), packed(insight, (each.change for each in found.help))

    def ask_about_node(insight: Insight, progress: Progress) -> tuple[WhyNot, dict[str, str]]:
        found = insight.why_not(key, node, progress=progress)
        return found, packed(insight, (each.change for each in found.help))

    found, row, entries = await visit.ask(("pod", key), ask)
    why_not, problem = None, ""
    if node:
        try:
            why_not, more = await visit.ask(("why-not", key, node), ask_about_node)
            entries = entries | more
        except QuestionError as error:
            problem = str(error)
    return visit.page(
        "pod.html",
        pod=found,
        row=row,
        entries=entries,
        asked_node=node,
        why_not=why_not,
        problem=problem,
        about=about(await visit.snapshot(), POD, key),
        every=POD_PAUSE,
        title=f"Pod {key}",
    )


async def node_page(visit: Visit, name: str) -> web.Response:
    """Return what is on a node, and which pending pods it rejects."""
    found = await visit.ask(("node", name), lambda insight, progress: node_report(insight, name, progress))
    known = about(await visit.snapshot(), NODE, name)
    return visit.page("node.html", node=found, about=known, every=POD_PAUSE, title=f"Node {name}")


async def search_page(visit: Visit) -> web.Response:
    """Return the nodes and pods of a name. A single one is opened at once, unless htmx asks as the user types."""
    text = visit.query.get("q", "")
    hits = await visit.ask(("search", text), lambda insight, _: search(insight, text))
    if len(hits) == 1 and not visit.part:
        return visit.redirect(f"/{hits[0].kind}s/{hits[0].name}")
    return visit.page("search.html", hits=hits, text=text, every=0, title="Search")
