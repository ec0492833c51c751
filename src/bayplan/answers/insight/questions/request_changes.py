"""Which workloads change if containers request what is recommended, and how: the plan of such a change.

`edits.py` makes the changes, and `requests_effect.py` says what each of them brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.answers.insight.answers import QuestionError, first_line, listed
from bayplan.answers.insight.owners import WORKLOADS, kind_called, others_called
from bayplan.answers.insight.recommendations.applying import WorkloadRequests, by_workload, changes_text
from bayplan.answers.insight.recommendations.reading import recommendations_in
from bayplan.answers.insight.recommendations.recommendation import Recommendation
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import CRON_JOB, JOB, POD, Kind
from bayplan.core.api.objects import Document, convert
from bayplan.core.api.requests import Amounts, container_limits, pod_requests
from bayplan.core.api.resource_lists import qos_class
from bayplan.core.cluster.pod_info import PodInfo

_SCALE = re.compile(r"(?:([^/=]+)/)?([^/=]+)=([0-9]{1,6}(?:\.[0-9]{1,6})?)")
_LARGEST = 1000.0


@dataclass(frozen=True, slots=True)
class RequestChange:
    """A workload whose containers request something else.

    `before`, `after`: the workload. `requests`: what pods of it request then.
    """

    kind: Kind
    key: str
    before: Document
    after: Document
    requests: WorkloadRequests

    @property
    def workload(self) -> str:
        """The workload, as in `deployment shop/web`."""
        return f"{self.kind.singular} {self.key}"

    @property
    def text(self) -> str:
        """How its requests and limits change; "" if they don't."""
        return changes_text(pod_spec(self.kind, self.before), pod_spec(self.kind, self.after))

    def amounts(self) -> tuple[Amounts, Amounts]:
        """What one of its pods requests before and after, in nano-units."""
        specs = (pod_spec(self.kind, each) for each in (self.before, self.after))
        before, after = (pod_requests(convert(POD.type, {"spec": spec})) for spec in specs)
        return before, after

    def qos(self) -> tuple[str, str]:
        """The QoS class of its pods before and after."""
        before, after = (_qos(pod_spec(self.kind, each)) for each in (self.before, self.after))
        return before, after


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The changes of requests. `problems`: recommendations that can't be used, one line each."""

    changes: tuple[RequestChange, ...] = ()
    problems: tuple[str, ...] = ()


def pod_spec(kind: Kind, document: Document) -> Document:
    """Return the spec of the pods of a workload."""
    return (template_of(kind, document) or {}).get("spec") or {}


def plan_requests(
    snapshot: Snapshot,
    pods: Mapping[str, PodInfo],
    documents: Sequence[Mapping[str, Any]],
    scale: Sequence[str],
    namespace: str,
) -> RequestPlan:
    """Return what recommendations in documents, and factors such as `deployment/web=0.7`, change in a snapshot.

    `pods`: those of the cluster. `namespace`: that of the factors. Raises QuestionError for factors that can't be used.
    """
    read = recommendations_in(documents)
    problems, planned = list(read.problems), dict[tuple[Kind, str], WorkloadRequests]()
    for (place, kind_name, name), containers in by_workload(read.found).items():
        kind, key = kind_called(kind_name), f"{place}/{name}"
        document = snapshot.document(kind, key) if kind in WORKLOADS else None
        problem = _problem(snapshot, pods, kind, document, next(iter(containers.values())))
        if problem or kind is None or document is None:
            problems.append(problem)
            continue
        requests = WorkloadRequests(containers)
        unknown = list(requests.unknown(pod_spec(kind, document)))
        problems += unknown
        if len(unknown) < len(containers):
            planned[kind, key] = requests
    for text in scale:
        kind, key, factor = _scaled(snapshot, pods, text, namespace)
        known = planned.get((kind, key), WorkloadRequests())
        planned[kind, key] = WorkloadRequests(known.recommendations, known.factor * factor)
    changes = tuple(_change(snapshot, kind, key, requests) for (kind, key), requests in planned.items())
    return RequestPlan(changes, tuple(problems))


def _problem(
    snapshot: Snapshot, pods: Mapping[str, PodInfo], kind: Kind | None, document: Document | None, first: Recommendation
) -> str:
    """Why the recommendations for a workload can't be used; "" if they can."""
    target = first.target
    if kind not in WORKLOADS:
        known = ", ".join(each.kind for each in WORKLOADS)
        return f"{target.where}: {target.kind} is no kind of workload that is known here: expected {known}"
    if document is None:
        hint = others_called(snapshot, pods, kind, target.namespace, target.name)
        return f"{target.where}: there is no {kind.singular} {target.namespace}/{target.name}{hint}"
    what = f"{target.where}: {kind.singular} {target.namespace}/{target.name}"
    return immutable(what) if kind is JOB else _fault(what, kind, document)


def _fault(what: str, kind: Kind, document: Document) -> str:
    """Why a workload of a cluster can't be read; "" if it can."""
    try:
        convert(kind.type, document)
        pod = convert(POD.type, {"spec": pod_spec(kind, document)})
        pod_requests(pod)
        container_limits(pod)
    except ValueError as error:
        return f"{what} can't be read: {first_line(str(error))}"
    return ""


def immutable(what: str) -> str:
    """Return why the pods of a Job can't change."""
    return f"{what}: the template of a Job is immutable: create it again"


@dataclass(frozen=True, slots=True)
class ScaledRequests:
    """A factor for the requests of a workload. `kind`: None if it wasn't given."""

    text: str
    kind: Kind | None
    name: str
    factor: float

    @classmethod
    def of(cls, text: str) -> ScaledRequests:
        """Read a text such as `deployment/web=0.7`. Raises QuestionError."""
        match = _SCALE.fullmatch(text)
        if match is None or not 0 < float(match[3]) <= _LARGEST:
            raise QuestionError(
                f"scale-requests {text}: expected [TYPE/]NAME=FACTOR, as in deployment/web=0.7; FACTOR is more than 0, "
                f"and at most {_LARGEST:g}"
            )
        kind = kind_called(match[1]) if match[1] else None
        if match[1] and kind not in WORKLOADS:
            types = ", ".join(each.singular for each in WORKLOADS)
            raise QuestionError(f"scale-requests {text}: expected TYPE to be one of {types}")
        return cls(text, kind, match[2], float(match[3]))

    def among(self, kinds: Iterable[Kind], key: str, hint: str = "") -> Kind:
        """Return which of the kinds that have a workload with this key is meant. Raises QuestionError."""
        found = [each for each in kinds if self.kind in {None, each}]
        if not found:
            what = "workload" if self.kind is None else self.kind.singular
            raise QuestionError(f"scale-requests {self.text}: there is no {what} {key}{hint}")
        if len(found) > 1:
            names = listed([f"{each.singular}/{self.name}" for each in found])
            raise QuestionError(
                f"scale-requests {self.text}: there is more than one workload {key}: expected one of {names}"
            )
        return found[0]


def _scaled(snapshot: Snapshot, pods: Mapping[str, PodInfo], text: str, namespace: str) -> tuple[Kind, str, float]:
    """The workload and the factor of a text. Raises QuestionError."""
    given = ScaledRequests.of(text)
    key = f"{namespace}/{given.name}"
    hint = others_called(snapshot, pods, given.kind or WORKLOADS[0], namespace, given.name)
    kind = given.among((each for each in WORKLOADS if key in snapshot.of_kind(each)), key, hint)
    what = f"scale-requests {text}"
    problem = immutable(what) if kind is JOB else _fault(what, kind, snapshot.document(kind, key) or {})
    if problem:
        raise QuestionError(problem)
    return kind, key, given.factor


def _change(snapshot: Snapshot, kind: Kind, key: str, requests: WorkloadRequests) -> RequestChange:
    before = snapshot.document(kind, key)
    assert before is not None  # it was looked up
    before = {**before, "apiVersion": kind.api_version, "kind": kind.kind}
    template = template_of(kind, before) or {}
    spec = template.get("spec") or {}
    return RequestChange(
        kind, key, before, with_template(kind, before, {**template, "spec": requests.applied(spec)}), requests
    )


def template_of(kind: Kind, document: Document) -> Document | None:
    """Return the template of a workload's pods."""
    spec = document.get("spec") or {}
    if kind is CRON_JOB:
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    found: Document | None = spec.get("template")
    return found


def with_template(kind: Kind, document: Document, template: Document) -> Document:
    """Return a workload with another template."""
    spec = document.get("spec") or {}
    if kind is not CRON_JOB:
        return {**document, "spec": {**spec, "template": template}}
    job = spec.get("jobTemplate") or {}
    made = {**job, "spec": {**(job.get("spec") or {}), "template": template}}
    return {**document, "spec": {**spec, "jobTemplate": made}}


def _qos(spec: Document) -> str:
    """The QoS class of a template's pods: of those, the API server makes limits requests where there are none."""
    containers = {}
    for name in ("initContainers", "containers"):
        containers[name] = [_defaulted(each) for each in spec.get(name) or ()]
    return qos_class({**spec, **containers})


def _defaulted(container: Document) -> Document:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    return {
        **container,
        "resources": {**resources, "limits": limits, "requests": {**limits, **(resources.get("requests") or {})}},
    }
