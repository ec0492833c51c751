"""Question: the base of all questions as values, with the types of their parameters and how commands spell them.

A question is one msgspec struct: read from JSON, described by a schema, asked of an Insight, and shown as the command
that a person would type. `asked/` has the questions. Imports no slow modules, so that a command can make its options of
a question and still print its help quickly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, ValidationError, convert
from msgspec.structs import FieldInfo, asdict, fields

from bayplan.answers.insight.answers import Answer, Progress, QuestionError, silent
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import insight
    from bayplan.core import config
    from bayplan.core.api import labels as selectors

if TYPE_CHECKING:
    from bayplan.core.api.labels import LabelSelector
    from bayplan.core.cluster.pod_info import PodInfo
    from bayplan.core.config import KubeSchedulerConfiguration

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

FILE = "objects.yaml"
"""What commands call the file that has the objects of a question."""
BEFORE = "before.yaml"
"""What commands call the file that has an earlier cluster."""
CONFIG = "configuration.yaml"
"""What commands call the file that has the configuration of a question."""
RECOMMENDATIONS = "recommendations.yaml"
"""What commands call the file that has recommendations of requests."""
PRICES = "prices.yaml"
"""What commands call the file that has the prices of a question."""

DURATIONS = "durations.yaml"
"""What commands call the file that has the durations of a question."""
MODELS = "models.yaml"
"""What commands call the file that has the parameters of the models of a question."""
HISTORY = "history"
"""What commands call the history that a question has its run times from."""


@dataclass(frozen=True, slots=True)
class Option:
    """How a command spells a parameter. It stands in the `Annotated` of the parameter, where msgspec passes over it.

    `name`: as in `--force` or `--at-once/--one-by-one`; "" for an argument. `file`: what the command calls the file
    that has the value. `pod`: whether the value is a pod, which a command shows with its namespace. `about`: the
    parameters that this one is about: it is shown if one of them is given, also if it is the default. `help`: what the
    command says of it, if that isn't the description.
    """

    name: str
    file: str = ""
    pod: bool = False
    about: tuple[str, ...] = ()
    help: str = ""
    metavar: str | None = None

    def spelled(self, value: object) -> Iterator[str]:
        """Yield the arguments of a command that give the value. A list is given value by value, a pair as two."""
        for each in value if isinstance(value, list | tuple) and not self.file else (value,):
            yield from filter(None, [self.name.partition("/")[0]])
            if self.file:
                yield self.file
            elif each is not True:
                yield from each if isinstance(each, tuple) else (str(each),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The command of a question, as far as the parameters don't say it. A question that has it needs no other command.

    `help`: what its help says. `doing`: what takes time, if Ctrl-C may end it early. `adds`: whether it adds to the
    cluster, so that it has limits. `decides`: whether it makes decisions, so that it needs plugins of a recording.
    `expected`: what is wrong with parameters that aren't `complete`. `unselected`: why -l can't be given. `forms`: what
    its answer has besides the usual ones. `paths`: whether files of objects can be given as arguments, too.
    """

    help: str
    doing: str = ""
    adds: bool = False
    decides: bool = True
    expected: str = ""
    unselected: str = ""
    forms: Sequence[str] = ()
    paths: bool = False


Name = Annotated[str, Meta(min_length=1, max_length=512)]
Number = Annotated[int, Meta(ge=1, le=MOST)]
Namespace = Annotated[str, Meta(min_length=1, max_length=63, description="The namespace of names without one.")]
AnyNamespace = Annotated[
    str, Meta(min_length=1, max_length=63, description="The namespace to look in. Default: all."), Option("-n")
]
Selector = Annotated[
    str, Meta(max_length=4096, description="A label selector, as in app=web,tier!=test."), Option("-l")
]
PodName = Annotated[Name, Meta(description="A pod: NAME, or NAMESPACE/NAME.", examples=["default/web-0"])]
NodeName = Annotated[Name, Meta(description="The name of a node.", examples=["node-a"])]
ObjectList = Annotated[
    list[dict[str, Any]],
    Meta(
        description="Kubernetes objects as JSON, with apiVersion and kind: pods, workloads, jobs, claims and others.",
        examples=[EXAMPLE],
    ),
]
ManifestList = Annotated[
    ObjectList,
    Option(
        "-f",
        file=FILE,
        help="A manifest in YAML or JSON, a folder of these, or - for standard input. May be repeated.",
    ),
]
RecommendationList = Annotated[
    list[dict[str, Any]],
    Meta(
        description="What containers should request: VerticalPodAutoscaler objects, a report of KRR or Goldilocks, or "
        "rows with namespace, kind, name, container, cpu and memory.",
        examples=[[{"namespace": "shop", "kind": "Deployment", "name": "web", "container": "main", "cpu": "250m"}]],
    ),
    Option(
        "--requests",
        file=RECOMMENDATIONS,
        metavar="FILE",
        help="Let containers request what a file recommends: VerticalPodAutoscaler objects, the JSON of KRR or "
        "Goldilocks, or CSV with the columns namespace, kind, name, container, cpu and memory.",
    ),
]
ScaledRequestList = Annotated[
    list[Name],
    Meta(description="Workloads, with a factor for cpu and memory.", examples=[["deployment/web=0.7"]]),
    Option(
        "--scale-requests",
        metavar="[TYPE/]NAME=FACTOR",
        help="Let all containers of a workload request cpu and memory times a factor, as in deployment/web=0.7.",
    ),
]
ConfigurationObject = Annotated[
    dict[str, Any], Meta(description="A KubeSchedulerConfiguration as JSON."), Option("--config", file=CONFIG)
]


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A question with its parameters."""

    name: ClassVar[str]
    """Its name in addresses."""
    words: ClassVar[Sequence[str]] = ()
    """The command of `bayplan`; by default, that of its name."""
    spoken: ClassVar[Spoken | None] = None
    """Its command; None if that does more than to ask the question."""
    example: ClassVar[Mapping[str, Any]] = {}
    """Parameters as JSON, as documents for programs show them."""
    narrowing: ClassVar[str] = ""
    """How to get a shorter answer, as an imperative; "" if nothing makes it shorter."""
    ages: ClassVar[bool] = False
    """Whether its answer gets old although no object changes that is followed: it is about leases."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """Return it with parameters by the names of its fields. Raises QuestionError."""
        encoded = {each.name: each.encode_name for each in fields(cls)}
        try:
            return convert({encoded.get(name, name): value for name, value in parameters.items()}, cls)
        except ValidationError as error:
            raise QuestionError(f"{cls.name}: {error}") from None

    @abstractmethod
    def ask(self, insight: insight.Insight, progress: Progress = silent, shown: int = 20) -> Answer:
        """Ask it. `shown`: the most rows of tables as text. Raises QuestionError."""

    @property
    def complete(self) -> bool:
        """Whether its parameters go together."""
        return True

    def arguments(self) -> Iterator[str]:
        """Yield the arguments of the command, without those that are the default."""
        yield from self.words or (self.name,)
        given = asdict(self)
        for parameter, option in options_of(type(self)):
            value = given[parameter.name]
            if any(map(given.get, option.about)) if option.about else value != default_of(parameter):
                yield from option.spelled(pod_key(value, given["namespace"]) if option.pod else value)

    def command(self) -> list[str]:
        """Return the command that a person would type. The files that it names have the objects of the question."""
        return ["bayplan", *self.arguments()]


@cache
def options_of(question: type[Question]) -> Sequence[tuple[FieldInfo, Option]]:
    """Return the parameters of a question that its command has, too, each with its option."""
    return [
        (parameter, option)
        for parameter in fields(question)
        for option in [each for each in metadata_of(parameter.type) if isinstance(each, Option)][-1:]
    ]


def metadata_of(declared: Any) -> Sequence[Any]:
    """Return the annotations of a type, and those of the types in its union; the innermost come first."""
    if get_origin(declared) is Annotated:
        found: Sequence[Any] = declared.__metadata__
        return found
    members = get_args(declared) if get_origin(declared) in {Union, UnionType} else ()
    return [found for each in members for found in metadata_of(each)]


def kind_of(declared: Any) -> Any:
    """Return the type of a parameter without annotations, and without None."""
    if get_origin(declared) is Annotated:
        return declared.__origin__
    if get_origin(declared) in {list, dict, Literal}:
        return declared
    members = [each for each in get_args(declared) if each is not type(None)]
    return kind_of(members[0]) if members else declared


def default_of(parameter: FieldInfo) -> Any:
    """Return the default of a parameter; NODEFAULT if it has none."""
    return parameter.default if parameter.default_factory is NODEFAULT else parameter.default_factory()


@contextmanager
def configured(document: Mapping[str, Any] | None) -> Iterator[KubeSchedulerConfiguration | None]:
    """Read a configuration. Its errors, also those of its use in the context, become QuestionErrors of one line."""
    try:
        yield None if document is None else config.parse_configuration(document, "configuration")
    except (config.ConfigurationError, config.PluginLoadError) as error:
        raise QuestionError("; ".join(str(error).splitlines())) from None


def pod_key(pod: str, namespace: str) -> str:
    """Return `namespace/name` of a pod."""
    name = pod.removeprefix("pod/")
    return name if "/" in name else f"{namespace}/{name}"


def parsed(selector: str) -> LabelSelector:
    """Read a label selector. Raises QuestionError."""
    try:
        return selectors.parse_label_selector(selector)
    except selectors.InvalidSelector as error:
        raise QuestionError(f"selector {selector!r}: {error}") from None


def selecting(selector: str) -> Callable[[PodInfo], bool]:
    """Return whether a label selector selects a pod. Raises QuestionError."""
    found = parsed(selector)
    return lambda pod: found.matches(pod.labels)
