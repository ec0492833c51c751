"""The pages about the cluster as it is: the bay plan, the queue, pods, nodes and the search."""

from __future__ import annotations

from aiohttp import web

from bayplan.api.kinds import NODE, POD
from bayplan.insight import Insight, QuestionError
from bayplan.insight.answers import Progress
from bayplan.insight.questions.pending import PendingPods
from bayplan.ui.about import about
from bayplan.ui.app import Visit
from bayplan.ui.bay_plan import BayPlan, bay_plan
from bayplan.ui.filters import check_namespace
from bayplan.ui.reports import PodRow, WorkloadCount, node_report, pod_row, search, waiting_pods, workloads_of

FEW_NODES = 600
SMALL_PAUSE, LARGE_PAUSE = 2, 10
"""Seconds between two checks for changes, for at most FEW_NODES nodes and for more."""
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

    def ask(insight: Insight, progress: Progress) -> tuple[PendingPods, list[tuple[WorkloadCount, ...]], list[str]]:
        known = check_namespace(insight, namespace)
        found = insight.explain_all(namespace or None, progress=progress)
        return found, [workloads_of(insight.world, cause.pods) for cause in found.causes], known

    pending, owners, known = await visit.ask(("queue", namespace), ask)
    return visit.page(
        "queue.html",
        pending=pending,
        owners=owners,
        namespace=namespace,
        namespaces=known,
        every=QUEUE_PAUSE,
        title="Queue",
    )


async def pod_page(visit: Visit, namespace: str, name: str) -> web.Response:
    """Return the explanation of a pod; with `?node=`, also what keeps it from that node."""
    key, node = f"{namespace}/{name}", visit.query.get("node", "").strip()
    found, row = await visit.ask(
        ("pod", key),
        lambda insight, progress: (insight.explain(key, progress=progress), pod_row(insight.pod(key))),
    )
    why_not, problem = None, ""
    if node:
        try:
            why_not = await visit.ask(
                ("why-not", key, node), lambda insight, progress: insight.why_not(key, node, progress=progress)
            )
        except QuestionError as error:
            problem = str(error)
    return visit.page(
        "pod.html",
        pod=found,
        row=row,
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
