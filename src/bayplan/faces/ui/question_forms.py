"""A form of a page, whose fields are parameters of a question: their texts become the question, as a value.

    QuestionForm("shrink", "Shrink", "Which nodes can go?", (FormField("selector", "only nodes with labels", "a=b"),))

The type of a parameter says how its text is read, and which numbers are possible. An empty text is the default. A
`reader` stands beside a parameter that a person doesn't type as it is, such as objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from msgspec import Meta
from msgspec.structs import fields

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.insight.asked.capacity import PodKind
from bayplan.answers.insight.insight import Insight
from bayplan.answers.insight.owners import WORKLOADS, kind_called
from bayplan.answers.insight.prices import Prices
from bayplan.answers.insight.question_parameters import Question, kind_of, metadata_of
from bayplan.answers.insight.question_types import QUESTIONS
from bayplan.core.api.kinds import POD
from bayplan.foundations.manifest_files import ManifestError, objects_in, yaml_documents

Texts = Mapping[str, str]
"""name of a field -> what was typed"""
Reader = Callable[[Insight, str, Texts], Any]
"""Makes the value of a parameter of the text of a field, and of the others. Raises QuestionError."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form. `example`: for its text; a check box has none. `needed`: whether it may not be empty.

    `parameter`: the parameter of the question; by default, that of its name, and None if only readers of other fields
    use it. `blamed`: whether it is marked if the question can't be answered for a reason of no other field. `lines`:
    those of its text.
    """

    name: str
    label: str
    example: str = ""
    needed: bool = False
    blamed: bool = False
    lines: int = 1
    parameter: str | None = ""
    reader: Reader | None = None


class FormFieldError(QuestionError):
    """A question that can't be answered because of one field of its form."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """A form of the question with a name. `text`: what it asks. `quick`: whether it is answered before it is sent.

    `given`: parameters that have no field. `about_all`: what is asked if the first field is empty, with the parameters
    that it has.
    """

    name: str
    title: str
    text: str
    fields: tuple[FormField, ...]
    quick: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
    about_all: str = ""

    @property
    def question(self) -> type[Question]:
        """The question."""
        return QUESTIONS[self.name]

    def filled(self, insight: Insight, texts: Texts) -> Question:
        """Return the question that was typed. Raises FormFieldError."""
        question = self.question
        if self.about_all and not texts[self.fields[0].name]:
            question = QUESTIONS[self.about_all]
        types = {parameter.name: parameter.type for parameter in fields(question)}
        values = {name: value for name, value in self.given.items() if name in types}
        for each in self.fields:
            parameter = each.name if each.parameter == "" else each.parameter
            text = texts[each.name]
            if parameter is None or not (text or each.needed):
                continue
            with _about(each):
                reader = each.reader
                values[parameter] = reader(insight, text, texts) if reader else _read(types[parameter], text)
        return question(**values)

    def blamed(self, error: QuestionError) -> list[str]:
        """Return the names of the fields that an error is about."""
        if isinstance(error, FormFieldError):
            return [error.field]
        return [each.name for each in self.fields if each.needed or each.blamed]


@contextmanager
def _about(each: FormField) -> Iterator[None]:
    """Say which field the errors in the context are about."""
    try:
        yield
    except QuestionError as error:
        raise FormFieldError(each.name, str(error)) from None


def _read(declared: Any, text: str) -> Any:
    kind = kind_of(declared)
    if kind is bool:
        return bool(text)
    if kind is int:
        return _number(text, [each for each in metadata_of(declared) if isinstance(each, Meta)])
    if get_origin(kind) is Literal and text not in get_args(kind):
        raise QuestionError(f"{text:.40}: expected one of {', '.join(get_args(kind))}")
    return _words(text) if get_origin(kind) is list else text


def _number(text: str, limits: list[Meta]) -> int:
    least = max((int(each.ge) for each in limits if each.ge is not None), default=0)
    most = min((int(each.le) for each in limits if each.le is not None), default=10**9)
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise QuestionError(f"{text:.40}: expected a number from {least} to {most:,}")
    return int(text)


def _words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip(" ,")) if text.strip(" ,") else []


def read_manifests(_: Insight, text: str, texts: Texts) -> list[dict[str, Any]]:
    """Read manifests in YAML. `texts`: its "namespace" is that of the objects that name none."""
    namespace = {"namespace": texts["namespace"]} if texts["namespace"] else {}
    try:
        objects = [
            {**each, "metadata": {**namespace, **(each.get("metadata") or {})}} if namespace else each
            for line, document in yaml_documents("the manifests", text)
            for each, _ in objects_in(document, f"the manifests (line {line})")
        ]
    except ManifestError as error:
        raise QuestionError(str(error)) from None
    if not objects:
        raise QuestionError("the manifests: expected at least one object")
    return objects


def read_prices(_: Insight, text: str, __: Texts) -> dict[str, float]:
    """Read prices in YAML."""
    return dict(Prices.of_text(text, "prices").dollars)


def read_durations(_: Insight, text: str, __: Texts) -> dict[str, Any]:
    """Read run times by workload in YAML."""
    try:
        documents = [document for _, document in yaml_documents("durations", text)]
    except ManifestError as error:
        raise QuestionError(str(error)) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise QuestionError("durations: expected durations by workload, as in `job default/train: 30m`")
    return {str(key): value for key, value in documents[0].items()}


def read_copy(insight: Insight, text: str, texts: Texts) -> list[PodKind]:
    """Return another one of an existing workload, such as `deployment/web`, or of a pod, as what is placed."""
    namespace = texts["namespace"] or "default"
    type_name, slash, name = text.rpartition("/")
    kind = kind_called(type_name) if slash else POD
    if kind not in {POD, *WORKLOADS}:
        types = ", ".join(each.singular for each in (POD, *WORKLOADS))
        raise QuestionError(f"{text}: expected TYPE/NAME, as in deployment/web; TYPE is {types}")
    document = insight.snapshot.document(kind, f"{namespace}/{name}")
    if document is None:
        raise QuestionError(f"there is no {kind.singular} {namespace}/{name}")
    metadata = {each: document["metadata"][each] for each in ("labels", "annotations") if each in document["metadata"]}
    document["metadata"] = {"name": f"{name}-copy", "namespace": namespace, **metadata}
    document.pop("status", None)
    if kind is POD:
        document["spec"].pop("nodeName", None)
    return [PodKind(objects=[document])]
