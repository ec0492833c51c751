"""The pages by method and path."""

from __future__ import annotations

from bayplan.faces.ui.agreement_page import agreement_page
from bayplan.faces.ui.app import Route, static
from bayplan.faces.ui.history_page import difference_page, history_page
from bayplan.faces.ui.objects_page import object_page
from bayplan.faces.ui.pages import node_page, plan_page, pod_page, search_page
from bayplan.faces.ui.questions_page import question_page, questions_page
from bayplan.faces.ui.queue_page import freeing_page, queue_page
from bayplan.faces.ui.what_if_page import change_basket, what_if_page
from bayplan.faces.ui.workloads_page import workload_page, workloads_page

ROUTES: tuple[Route, ...] = (
    ("GET", "/", plan_page),
    ("GET", "/queue", queue_page),
    ("GET", "/queue/freeing", freeing_page),
    ("GET", "/pods/{namespace}/{name}", pod_page),
    ("GET", "/nodes/{name}", node_page),
    ("GET", "/workloads", workloads_page),
    ("GET", "/workloads/{namespace}/{kind}/{name}", workload_page),
    ("GET", "/objects/{resource}/{name}", object_page),
    ("GET", "/objects/{resource}/{namespace}/{name}", object_page),
    ("GET", "/search", search_page),
    ("GET", "/what-if", what_if_page),
    ("POST", "/what-if", change_basket),
    ("GET", "/questions", questions_page),
    ("GET", "/questions/{name}", question_page),
    ("GET", "/history", history_page),
    ("GET", "/history/difference", difference_page),
    ("GET", "/agreement", agreement_page),
    ("GET", "/static/{name}", static),
)
"""Each page gets the variable parts of its path as arguments, in their order."""
