"""The pages of questions that have a form and an answer of lines and tables: one template for all of them.

To add one: its form in `QUESTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

from bayplan.answers.insight.answers import Progress, QuestionError
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.limits import MOST_NEW_NODES
from bayplan.faces.ui.answer_parts import Grid, TextLine, parts_of
from bayplan.faces.ui.app import PageError, PageRequest
from bayplan.faces.ui.question_forms import (
    FormField,
    QuestionForm,
    read_copy,
    read_durations,
    read_manifests,
    read_prices,
)

ROWS = 200
"""The most rows of a table."""
GANG = 200
"""The largest gang that is tried."""
ASKED = "asked"
"""The parameter of a form that was sent."""
_PAUSE = 10
"""Seconds between two checks for changes of an answer that takes no time."""

_MANIFEST = """apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - {name: main, image: nginx, resources: {requests: {cpu: "1"}}}"""
_DURATIONS = """job default/train: 30m
cronjob default/nightly: {p50: 20m, p90: 1h}"""
_PRICES = """m5.large: 0.096
batch: 0.34"""
_NAMESPACE = FormField("namespace", "in namespace", "default")
_NAMESPACE_OF_NAMES = FormField("namespace", "in namespace", "default", parameter=None)
_MANIFESTS = (
    FormField(
        "manifests", "manifests in YAML", _MANIFEST, needed=True, lines=12, parameter="objects", reader=read_manifests
    ),
    _NAMESPACE_OF_NAMES,
)
_FLAGS = (
    FormField("delete_emptydir_data", "delete the data of emptyDir volumes"),
    FormField("force", "delete bare pods"),
)

QUESTIONS: Mapping[str, QuestionForm] = {
    form.name: form
    for form in (
        QuestionForm(
            "doctor",
            "Doctor",
            "What is wrong now: do the schedulers run, who waits and why, what holds the room, what helps most?",
            (_NAMESPACE,),
        ),
        QuestionForm(
            "usage",
            "Usage",
            "Who uses the cluster: what pods request, by namespace, workload and priority.",
            (_NAMESPACE,),
            quick=True,
        ),
        QuestionForm(
            "balance",
            "Balance",
            "How evenly is the cluster used, what is stranded, and which pods and which gang still fit?",
            (FormField("like", "gang of pods like", "web-0"), _NAMESPACE),
            given={"most": GANG},
        ),
        QuestionForm(
            "fit",
            "Fit",
            "Would all pods of these manifests be placed now, where, and by evicting which pods?",
            _MANIFESTS,
        ),
        QuestionForm(
            "check",
            "Check",
            "What is wrong with these manifests: do they fit, whom do they evict, does the next rollout get stuck?",
            _MANIFESTS,
        ),
        QuestionForm(
            "scale-up",
            "Scale up",
            "How many new nodes of which pool would be enough for the pods that are pending?",
            (
                FormField("pools", "only pools", "web batch", blamed=True),
                FormField("most", "at most so many new nodes of a pool", str(MOST_NEW_NODES)),
                FormField(
                    "prices",
                    "dollars for an hour, by instance type or pool",
                    _PRICES,
                    lines=3,
                    reader=read_prices,
                ),
            ),
        ),
        QuestionForm(
            "when",
            "When",
            "When will the pods that wait start, and what do they wait for?",
            (
                FormField("what", "pod or workload", "job/train, or nothing for all that are pending"),
                _NAMESPACE,
                FormField("durations", "how long pods run, by workload", _DURATIONS, lines=3, reader=read_durations),
                FormField("autoscaler", "rules of an autoscaler", "none, cluster-autoscaler or karpenter"),
            ),
            given={"sooner": "no"},
            about_all="when-pending",
        ),
        QuestionForm(
            "capacity",
            "Capacity",
            "How many more pods of a workload, or like a pod, would be placed?",
            (
                FormField("like", "like", "deployment/web", needed=True, parameter="kinds", reader=read_copy),
                _NAMESPACE_OF_NAMES,
                FormField("by", "also by labels of nodes", "kubernetes.io/arch", parameter="labels"),
            ),
        ),
        QuestionForm(
            "drain",
            "Drain",
            "Where do the pods of these nodes go, and what blocks the drain?",
            (
                FormField("nodes", "nodes", "node-a node-b", needed=True),
                FormField("ignore_daemonsets", "ignore pods of DaemonSets"),
                *_FLAGS,
            ),
        ),
        QuestionForm(
            "shrink",
            "Shrink",
            "Which nodes can go with every pod still placed?",
            (FormField("selector", "only nodes with labels", "pool=batch"), *_FLAGS),
        ),
        QuestionForm(
            "upgrade-preview",
            "Upgrade preview",
            "What would another version of Kubernetes decide differently here, and which changes cause it?",
            (FormField("to", "version", "the next one"), _NAMESPACE),
        ),
    )
}
"""last part of its address -> form"""


async def questions_page(visit: PageRequest) -> web.Response:
    """Return the page that lists the questions with a form."""
    return visit.page("questions.html", questions=QUESTIONS, every=0, title="Questions")


async def question_page(visit: PageRequest, name: str) -> web.Response:
    """Return the form of a question, and its answer once the form was sent."""
    form = QUESTIONS.get(name)
    if form is None:
        raise PageError(HTTPStatus.NOT_FOUND, f"there is no question {name}; there is {', '.join(QUESTIONS)}")
    texts = {field.name: visit.query.get(field.name, "").strip() for field in form.fields}

    def ask(insight: Insight, progress: Progress) -> tuple[tuple[TextLine | Grid, ...], bool]:
        answer = form.filled(insight, texts).ask(insight, progress, ROWS)
        return parts_of(insight, answer), answer.interrupted

    parts, interrupted, problem, blamed = None, False, "", list[str]()
    if form.quick or ASKED in visit.query:
        try:
            key = "question", name, tuple(texts.items())
            parts, interrupted = await visit.ask(key, ask, ages=form.question.ages)
        except QuestionError as error:
            problem, blamed = str(error), form.blamed(error)
    return visit.page(
        "question.html",
        form=form,
        texts=texts,
        parts=parts,
        interrupted=interrupted,
        problem=problem,
        blamed=blamed,
        every=_PAUSE if form.quick else 0,
        title=form.title,
    )
