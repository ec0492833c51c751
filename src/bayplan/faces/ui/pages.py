"""The pages about the cluster as it is: the bay plan, pods, nodes and the search."""

from __future__ import annotations

from aiohttp import web

from bayplan.answers.insight.answers import Progress, QuestionError
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.questions.explain import Explanation
from bayplan.answers.insight.questions.why_not import WhyNot
from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.ui.about import about
from bayplan.faces.ui.app import PageRequest
from bayplan.faces.ui.bay_plan import BayPlan, bay_plan
from bayplan.faces.ui.filters import check_namespace
from bayplan.faces.ui.packing import packed
from bayplan.faces.ui.reports import PodRow, node_report, pod_row, search, waiting_pods

FEW_NODES = 600
SMALL_PAUSE, LARGE_PAUSE = 2, 10
"""Seconds between two checks for changes, for at most FEW_NODES nodes and for more."""
POD_PAUSE = 3
"""Seconds between two checks of a pod or a node."""
WAITING_SHOWN = 24
"""The most pending pods to show next to the plan."""


async def plan_page(visit: PageRequest) -> web.Response:
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


async def pod_page(visit: PageRequest, namespace: str, name: str) -> web.Response:
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


async def node_page(visit: PageRequest, name: str) -> web.Response:
    """Return what is on a node, and which pending pods it rejects."""
    found = await visit.ask(("node", name), lambda insight, progress: node_report(insight, name, progress))
    known = about(await visit.snapshot(), NODE, name)
    return visit.page("node.html", node=found, about=known, every=POD_PAUSE, title=f"Node {name}")


async def search_page(visit: PageRequest) -> web.Response:
    """Return the nodes and pods of a name. A single one is opened at once, unless htmx asks as the user types."""
    text = visit.query.get("q", "")
    hits = await visit.ask(("search", text), lambda insight, _: search(insight, text))
    if len(hits) == 1 and not visit.part:
        return visit.redirect(f"/{hits[0].kind}s/{hits[0].name}")
    return visit.page("search.html", hits=hits, text=text, every=0, title="Search")
