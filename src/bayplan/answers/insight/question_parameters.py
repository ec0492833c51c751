"""Question: the base of all questions as values, with the types of their parameters.

A question is one msgspec struct: read from JSON, described by a schema, asked of an Insight, and shown as the command
that a person would type. `question_types.py` has the questions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from bayplan.answers.insight.answers import Answer, Progress, QuestionError, silent
from bayplan.answers.insight.insight import Insight
from bayplan.core.api.labels import InvalidSelector, LabelSelector, parse_label_selector
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ConfigurationError, KubeSchedulerConfiguration, PluginLoadError, parse_configuration

MOST = 1_000_000
"""The largest number in a question."""

EXAMPLE = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {
            "containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
        },
    }
]
"""Objects that a question may have."""

Name = Annotated[str, Meta(min_length=1, max_length=512)]
Number = Annotated[int, Meta(ge=1, le=MOST)]
Namespace = Annotated[str, Meta(min_length=1, max_length=63, description="The namespace of names without one.")]
AnyNamespace = Annotated[str, Meta(min_length=1, max_length=63, description="The namespace to look in. Default: all.")]
Selector = Annotated[str, Meta(max_length=4096, description="A label selector, as in app=web,tier!=test.")]
PodName = Annotated[Name, Meta(description="A pod: NAME, or NAMESPACE/NAME.", examples=["default/web-0"])]
NodeName = Annotated[Name, Meta(description="The name of a node.", examples=["node-a"])]
ObjectList = Annotated[
    list[dict[str, Any]],
    Meta(
        description="Kubernetes objects as JSON, with apiVersion and kind: pods, workloads, jobs, claims and others.",
        examples=[EXAMPLE],
    ),
]
ConfigurationObject = Annotated[dict[str, Any], Meta(description="A KubeSchedulerConfiguration as JSON.")]
FILE = "objects.yaml"
"""What commands call the file that has the objects of a question."""
BEFORE = "before.yaml"
"""What commands call the file that has an earlier cluster."""
CONFIG = "configuration.yaml"
"""What commands call the file that has the configuration of a question."""
PRICES = "prices.yaml"
"""What commands call the file that has the prices of a question."""


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A question with its parameters."""

    name: ClassVar[str]
    """Its name in addresses, and the command of `bayplan`."""
    example: ClassVar[Mapping[str, Any]] = {}
    """Parameters as JSON, as documents for programs show them."""
    narrowing: ClassVar[str] = ""
    """How to get a shorter answer, as an imperative; "" if nothing makes it shorter."""
    ages: ClassVar[bool] = False
    """Whether its answer gets old although no object changes that is followed: it is about leases."""

    @abstractmethod
    def ask(self, insight: Insight, progress: Progress = silent, shown: int = 20) -> Answer:
        """Ask it. `shown`: the most rows of tables as text. Raises QuestionError."""

    @abstractmethod
    def arguments(self) -> Iterator[str]:
        """Yield the arguments of the command."""

    def command(self) -> list[str]:
        """Return the command that a person would type. The files that it names have the objects of the question."""
        return ["bayplan", *self.arguments()]


@contextmanager
def configured(document: Mapping[str, Any] | None) -> Iterator[KubeSchedulerConfiguration | None]:
    """Read a configuration. Its errors, also those of its use in the context, become QuestionErrors of one line."""
    try:
        yield None if document is None else parse_configuration(document, "configuration")
    except (ConfigurationError, PluginLoadError) as error:
        raise QuestionError("; ".join(str(error).splitlines())) from None


def pod_key(pod: str, namespace: str) -> str:
    """Return `namespace/name` of a pod."""
    name = pod.removeprefix("pod/")
    return name if "/" in name else f"{namespace}/{name}"


def parsed(selector: str) -> LabelSelector:
    """Read a label selector. Raises QuestionError."""
    try:
        return parse_label_selector(selector)
    except InvalidSelector as error:
        raise QuestionError(f"selector {selector!r}: {error}") from None


def selecting(selector: str) -> Callable[[PodInfo], bool]:
    """Return whether a label selector selects a pod. Raises QuestionError."""
    found = parsed(selector)
    return lambda pod: found.matches(pod.labels)


def option(name: str, value: object) -> tuple[str, ...]:
    """Return an option with its value, unless that is empty."""
    return () if value in {None, ""} else (name, str(value))


def flag(name: str, value: object) -> tuple[str, ...]:
    """Return an option without a value if it is set."""
    return (name,) if value else ()


def each(name: str, values: Iterable[str]) -> Iterator[str]:
    """Yield an option for each value."""
    for value in values:
        yield from (name, value)
