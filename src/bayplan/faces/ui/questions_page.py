"""The pages of questions that have a form and an answer of lines and tables: one template for all of them.

A form's fields are the parameters of the question. To add one: a line in `QUESTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from bayplan.answers.insight.answers import Answer, Progress, QuestionError
from bayplan.answers.insight.asked.upgrade_preview import AskUpgradePreview
from bayplan.answers.insight.asked.when import AskWhen, WhenPending
from bayplan.answers.insight.foresight import AUTOSCALERS, NO_AUTOSCALER
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.limits import LARGEST_POOL, MOST_NEW_NODES
from bayplan.answers.insight.owners import WORKLOADS, kind_called
from bayplan.answers.insight.prices import Prices
from bayplan.answers.insight.question_parameters import Question, pod_key
from bayplan.core.api.kinds import POD
from bayplan.core.api.labels import InvalidSelector, parse_label_selector
from bayplan.faces.ui.answer_parts import Grid, TextLine, parts_of
from bayplan.faces.ui.app import PageError, PageRequest
from bayplan.foundations.manifest_files import ManifestError, objects_in, yaml_documents

ROWS = 200
"""The most rows of a table."""
GANG = 200
"""The largest gang that is tried."""
ASKED = "asked"
"""The parameter of a form that was sent."""
_PAUSE = 10
"""Seconds between two checks for changes of an answer that takes no time."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form. `example`: for its text; a check box has none. `needed`: whether it may not be empty.

    `lines`: those of its text.
    """

    name: str
    label: str
    example: str = ""
    needed: bool = False
    lines: int = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A question. `text`: what it asks. `quick`: whether it is answered before the form is sent. `ages`: see Asking."""

    title: str
    text: str
    fields: tuple[FormField, ...]
    ask: Callable[[Insight, Mapping[str, str], Progress], Answer]
    quick: bool = False
    ages: bool = False


class FormFieldError(QuestionError):
    """A question that can't be answered because of one field of its form."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@contextmanager
def _about(field: str) -> Iterator[None]:
    """Say which field the errors in the context are about."""
    try:
        yield
    except QuestionError as error:
        raise FormFieldError(field, str(error)) from None


def _capacity(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    document = _manifest(insight, form["like"], form["namespace"] or "default")
    return insight.capacity([document], labels=_words(form["by"]), shown=ROWS, progress=progress)


def _fit(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    try:
        objects = [
            {**each, "metadata": {"namespace": form["namespace"], **(each.get("metadata") or {})}}
            if form["namespace"]
            else each
            for line, document in yaml_documents("the manifests", form["manifests"])
            for each, _ in objects_in(document, f"the manifests (line {line})")
        ]
    except ManifestError as error:
        raise QuestionError(str(error)) from None
    if not objects:
        raise QuestionError("the manifests: expected at least one object")
    return insight.fit(objects, shown=ROWS, progress=progress)


def _balance(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    progress("reading")
    like = pod_key(form["like"], form["namespace"] or "default") if form["like"] else None
    return insight.balance(like, most=GANG, shown=ROWS)


def _drain(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    nodes = _words(form["nodes"])
    if not nodes:
        raise QuestionError("expected the name of a node")
    flags: dict[str, Any] = {each.name: bool(form[each.name]) for each in (*_FLAGS, _IGNORE_DAEMONSETS)}
    return insight.drain(nodes, **flags, shown=ROWS, progress=progress)


def _shrink(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    try:
        selector = parse_label_selector(form["selector"])
    except InvalidSelector as error:
        raise QuestionError(f"{form['selector']}: expected a label selector: {error}") from None
    flags: dict[str, Any] = {flag.name: bool(form[flag.name]) for flag in _FLAGS}
    return insight.shrink(selector.matches, **flags, shown=ROWS, progress=progress)


def _upgrade_preview(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    question = AskUpgradePreview(to=form["to"] or None, namespace=form["namespace"] or None)
    return question.ask(insight, progress, ROWS)


def _scale_up(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    with _about("most"):
        most = _number(form["most"], LARGEST_POOL) if form["most"] else MOST_NEW_NODES
    with _about("prices"):
        prices = Prices.of_text(form["prices"], "prices") if form["prices"] else Prices({})
    with _about("pools"):  # all else has been read
        pools = _words(form["pools"])
        return insight.scale_up(pools=pools, most=most, price_of=prices.of, shown=ROWS, progress=progress)


def _when(insight: Insight, form: Mapping[str, str], progress: Progress) -> Answer:
    with _about("durations"):
        told: dict[str, Any] = {"durations": _mapping("durations", form["durations"]) if form["durations"] else {}}
    autoscaler = form["autoscaler"] or NO_AUTOSCALER
    if autoscaler not in AUTOSCALERS:
        raise FormFieldError("autoscaler", f"{autoscaler:.40}: expected one of {', '.join(AUTOSCALERS)}")
    told["autoscaler"] = autoscaler
    namespace = form["namespace"]
    question: Question
    if not form["what"]:
        question = WhenPending(namespace=namespace or None, **told)
    else:
        question = AskWhen(what=form["what"], namespace=namespace or "default", sooner="no", **told)
    return question.ask(insight, progress, ROWS)


def _mapping(name: str, text: str) -> dict[str, Any]:
    """Read a mapping in YAML. Raises QuestionError."""
    try:
        documents = [document for _, document in yaml_documents(name, text)]
    except ManifestError as error:
        raise QuestionError(str(error)) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise QuestionError(f"{name}: expected durations by workload, as in `job default/train: 30m`")
    return {str(key): value for key, value in documents[0].items()}


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
_IGNORE_DAEMONSETS = FormField("ignore_daemonsets", "ignore pods of DaemonSets")
_FLAGS = (
    FormField("delete_emptydir_data", "delete the data of emptyDir volumes"),
    FormField("force", "delete bare pods"),
)

QUESTIONS: Mapping[str, Asked] = {
    "doctor": Asked(
        "Doctor",
        "What is wrong now: do the schedulers run, who waits and why, what holds the room, and what would help most?",
        (_NAMESPACE,),
        lambda insight, form, told: insight.doctor(form["namespace"] or None, shown=ROWS, progress=told),
        ages=True,
    ),
    "usage": Asked(
        "Usage",
        "Who uses the cluster: what pods request, by namespace, workload and priority.",
        (_NAMESPACE,),
        lambda insight, form, _: insight.usage(form["namespace"] or None, shown=ROWS),
        quick=True,
    ),
    "balance": Asked(
        "Balance",
        "How evenly is the cluster used, what is stranded, and which pods and which gang still fit?",
        (FormField("like", "gang of pods like", "web-0"), _NAMESPACE),
        _balance,
    ),
    "fit": Asked(
        "Fit",
        "Would all pods of these manifests be placed now, where, and by evicting which pods?",
        (FormField("manifests", "manifests in YAML", _MANIFEST, needed=True, lines=12), _NAMESPACE),
        _fit,
    ),
    "scale-up": Asked(
        "Scale up",
        "How many new nodes of which pool would be enough for the pods that are pending?",
        (
            FormField("pools", "only pools", "web batch"),
            FormField("most", "at most so many new nodes of a pool", str(MOST_NEW_NODES)),
            FormField("prices", "dollars for an hour, by instance type or pool", _PRICES, lines=3),
        ),
        _scale_up,
    ),
    "when": Asked(
        "When",
        "In how long do pods start that wait, and what do they wait for?",
        (
            FormField("what", "pod or workload", "job/train, or nothing for all that are pending"),
            _NAMESPACE,
            FormField("durations", "how long pods run, by workload", _DURATIONS, lines=3),
            FormField("autoscaler", "rules of an autoscaler", " or ".join(AUTOSCALERS)),
        ),
        _when,
    ),
    "capacity": Asked(
        "Capacity",
        "How many more pods of a workload, or like a pod, would be placed?",
        (
            FormField("like", "like", "deployment/web", needed=True),
            _NAMESPACE,
            FormField("by", "also by labels of nodes", "kubernetes.io/arch"),
        ),
        _capacity,
    ),
    "drain": Asked(
        "Drain",
        "Where do the pods of these nodes go, and what blocks the drain?",
        (FormField("nodes", "nodes", "node-a node-b", needed=True), _IGNORE_DAEMONSETS, *_FLAGS),
        _drain,
    ),
    "shrink": Asked(
        "Shrink",
        "Which nodes can go with every pod still placed?",
        (FormField("selector", "only nodes with labels", "pool=batch"), *_FLAGS),
        _shrink,
    ),
    "upgrade-preview": Asked(
        "Upgrade preview",
        "What would another version of Kubernetes decide differently here, and which changes cause it?",
        (FormField("to", "version", "the next one"), _NAMESPACE),
        _upgrade_preview,
    ),
}
"""last part of its address -> question"""


async def questions_page(visit: PageRequest) -> web.Response:
    """Return the page that lists the questions with a form."""
    return visit.page("questions.html", questions=QUESTIONS, every=0, title="Questions")


async def question_page(visit: PageRequest, name: str) -> web.Response:
    """Return the form of a question, and its answer once the form was sent."""
    question = QUESTIONS.get(name)
    if question is None:
        raise PageError(HTTPStatus.NOT_FOUND, f"there is no question {name}; there is {', '.join(QUESTIONS)}")
    form = {field.name: visit.query.get(field.name, "").strip() for field in question.fields}

    def ask(insight: Insight, progress: Progress) -> tuple[tuple[TextLine | Grid, ...], bool]:
        answer = question.ask(insight, form, progress)
        return parts_of(insight, answer), answer.interrupted

    parts, interrupted, problem, faulty = None, False, "", [field.name for field in question.fields if field.needed]
    if question.quick or ASKED in visit.query:
        try:
            key = "question", name, tuple(form.items())
            parts, interrupted = await visit.ask(key, ask, ages=question.ages)
        except QuestionError as error:
            problem = str(error)
            if isinstance(error, FormFieldError):
                faulty = [error.field]
    return visit.page(
        "question.html",
        question=question,
        form=form,
        parts=parts,
        interrupted=interrupted,
        problem=problem,
        faulty=faulty if problem else [],
        every=_PAUSE if question.quick else 0,
        title=question.title,
    )


def _words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip(" ,")) if text.strip(" ,") else []


def _number(text: str, most: int) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise QuestionError(f"{text:.40}: expected a number from 1 to {most:,}")
    return int(text)


def _manifest(insight: Insight, given: str, namespace: str) -> dict[str, Any]:
    """The manifest of another one of an existing workload, such as `deployment/web`, or of a pod."""
    type_name, slash, name = given.rpartition("/")
    kind = kind_called(type_name) if slash else POD
    if kind not in {POD, *WORKLOADS}:
        types = ", ".join(each.singular for each in (POD, *WORKLOADS))
        raise QuestionError(f"{given}: expected TYPE/NAME, as in deployment/web; TYPE is {types}")
    document = insight.snapshot.document(kind, f"{namespace}/{name}")
    if document is None:
        raise QuestionError(f"there is no {kind.singular} {namespace}/{name}")
    metadata = {
        field: document["metadata"][field] for field in ("labels", "annotations") if field in document["metadata"]
    }
    document["metadata"] = {"name": f"{name}-copy", "namespace": namespace, **metadata}
    document.pop("status", None)
    if kind is POD:
        document["spec"].pop("nodeName", None)
    return document
