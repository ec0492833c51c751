"""The pages about workloads: a list, and one of them with its pods."""

from __future__ import annotations

from aiohttp import web

from bayplan.answers.insight.answers import Progress
from bayplan.answers.insight.insight import Insight
from bayplan.faces.ui.app import PageRequest
from bayplan.faces.ui.filters import check_namespace
from bayplan.faces.ui.workloads import WorkloadRow, workload_report, workload_rows

WORKLOADS_SHOWN = 300
PODS_SHOWN = 300
"""The most rows of a table."""
WORKLOAD_PAUSE = 5
"""Seconds between two checks for changes."""


async def workloads_page(visit: PageRequest) -> web.Response:
    """Return the workloads of a namespace or of all, of a kind, and with a text in their names."""
    namespace, kind, text = (visit.query.get(name, "").strip() for name in ("namespace", "kind", "name"))

    def ask(insight: Insight, progress: Progress) -> tuple[tuple[WorkloadRow, ...], list[str]]:
        return workload_rows(insight, progress), check_namespace(insight, namespace)

    rows, known = await visit.ask(("workloads", namespace), ask)
    kinds = sorted({row.kind for row in rows})
    found = [
        row
        for row in rows
        if namespace in {"", row.namespace} and kind in {"", row.kind} and text.lower() in row.name.lower()
    ]
    return visit.page(
        "workloads.html",
        rows=found[:WORKLOADS_SHOWN],
        count=len(found),
        kinds=kinds,
        kind=kind,
        text=text,
        namespace=namespace,
        namespaces=known,
        every=WORKLOAD_PAUSE,
        title="Workloads",
    )


async def workload_page(visit: PageRequest, namespace: str, kind: str, name: str) -> web.Response:
    """Return the pods of a workload, and why the rest isn't there."""
    found = await visit.ask(
        ("workload", namespace, kind, name),
        lambda insight, progress: workload_report(insight, namespace, kind, name, progress),
    )
    return visit.page(
        "workload.html",
        workload=found,
        shown=found.pods[:PODS_SHOWN],
        every=WORKLOAD_PAUSE,
        title=f"{found.row.kind.capitalize()} {namespace}/{name}",
    )
