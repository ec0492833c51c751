"""check: asks the other questions about manifests, and sums up what they answer as findings for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, QuestionError, Stopped, plural, silent
from bayplan.answers.insight.checking import forms
from bayplan.answers.insight.checking.fields import strategy_at
from bayplan.answers.insight.checking.findings import Finding, Given, GivenObjects, by_level
from bayplan.answers.insight.checking.mistakes import mistakes
from bayplan.answers.insight.checking.placing import FIRST_OLD, Around, accepted, found_by_fit, with_nodes
from bayplan.answers.insight.checking.queues import Queues
from bayplan.answers.insight.checking.rollouts import restarted, tried
from bayplan.answers.insight.checking.rules import ERROR, LEVELS
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.limits import AdditionLimit, Limits
from bayplan.answers.insight.manifests import Manifests
from bayplan.answers.insight.owners import WORKLOADS, owned_by
from bayplan.answers.insight.questions.edits import Changes
from bayplan.answers.insight.questions.explain import Explanation
from bayplan.answers.insight.questions.fit import Fit
from bayplan.answers.insight.questions.upgrade_preview import next_version, schedulers, upgrade_preview
from bayplan.answers.insight.questions.what_if import WhatIf
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.snapshot import Snapshot, flattened
from bayplan.core.api.kinds import POD
from bayplan.core.config import ConfigurationError, ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.versions import FeatureGates, gates_of, with_gangs

_MOST_EXPLAINED = 5
"""The most objects for whose pending pods changes are tried."""

_SURGE = "maxSurge"
"""A change of the manifest's strategy, which a pull request can make, comes before changes of the cluster."""


class Asked(Protocol):
    """What check asks of an `Insight`."""

    world: World
    snapshot: Snapshot
    configuration: KubeSchedulerConfiguration | None
    plugins: Sequence[ExtraPlugin]
    gates: FeatureGates
    seed: int
    limits: Limits

    def fit(self, objects: Iterable[Mapping[str, Any]], *, progress: Progress = ...) -> Fit:
        """Return whether the pods of objects would be placed."""

    def what_if(self, changes: Changes, *, progress: Progress = ...) -> WhatIf:
        """Return which pods change after changes."""

    def changed(self, changes: Changes, *, progress: Progress = ...) -> Asked:
        """Return the cluster after changes."""

    def move(self, snapshot: Snapshot) -> None:
        """Ask about another snapshot from now on."""

    def explain(self, pod: str, *, progress: Progress = ...) -> Explanation:
        """Return why a pod is pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Answer):
    """What an apply of manifests would lead to.

    `objects`: how many the manifests have. `pods`: how many pods these have, of which `placed` would be placed.
    `version`: the version of Kubernetes that decides, and `next_version` the one that is compared with it; "" if none
    is known. `fail_on`: from which level of findings on the check fails. `interrupted`: whether not all was looked at.
    """

    findings: tuple[Finding, ...]
    objects: int
    pods: int
    placed: int
    version: str
    next_version: str = ""
    fail_on: str = ERROR
    shown: int = 20
    interrupted: bool = False

    @property
    def passes(self) -> bool:
        """Whether there is no finding from the level on at which the check fails."""
        return not any(LEVELS.index(each.level) <= LEVELS.index(self.fail_on) for each in self.findings)

    @property
    def forms(self) -> Mapping[str, str]:
        """The forms that pipelines read."""
        return _Forms(self)

    @property
    def next_steps(self) -> Sequence[str]:
        """The next step of each finding."""
        return [f"{each.object}: {each.next}" for each in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/check.md."""
        return {"passes": self.passes, "summary": self.summary, **fields_of(self)}

    @property
    def summary(self) -> str:
        """What was found, in one sentence."""
        counts = Counter(each.level for each in self.findings)
        found = [plural(counts[level], level) for level in LEVELS if counts[level]]
        placed = f"{self.placed:,} of {plural(self.pods, 'pod')} of {plural(self.objects, 'object')} would be placed"
        return f"{', '.join(found) or 'nothing is wrong'}; {placed}"

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per finding."""
        return [each.to_dict() for each in self.findings]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, and three lines for each finding."""
        most = len(self.findings) if wide or not self.shown else self.shown
        parts = [line for each in self.findings[:most] for line in _lines(each)]
        if len(self.findings) > most:
            parts += [Text(), Text(f"and {plural(len(self.findings) - most, 'more finding')}: --limit 0 shows them")]
        parts += [Text(), Text(INTERRUPTED, style="bold")] if self.interrupted else []
        return Lines(Text(self.summary, style="bold"), *parts)


class _Forms(Mapping[str, str]):
    """The forms of a check by name; each is made when it is asked for."""

    def __init__(self, found: Check) -> None:
        self._found = found

    def __getitem__(self, name: str) -> str:
        return forms.FORMS[name](self._found.findings, self._found.fail_on)

    def __iter__(self) -> Iterator[str]:
        return iter(forms.FORMS)

    def __len__(self) -> int:
        return len(forms.FORMS)


def _lines(found: Finding) -> Iterator[Text]:
    yield Text()
    yield Text(f"{found.level}: {found.object}{f' ({found.place})' if found.place else ''}: {found.rule}", style="bold")
    yield Text(f"  {found.message}")
    yield Text(f"  next: {found.next}")


def check(
    asked: Asked,
    objects: Iterable[Mapping[str, Any]],
    *,
    fail_on: str = ERROR,
    shown: int = 20,
    progress: Progress = silent,
) -> Check:
    """Ask what an apply of the objects would lead to. Raises QuestionError if none of them can be applied.

    `progress` may raise Stopped: the answer then has what is known so far.
    """
    given = GivenObjects(flattened(objects))
    progress("whether they fit")
    fit = asked.fit(given.documents, progress=progress)
    checking = _Checking(asked, given, fit, progress)
    found: list[Finding] = []
    interrupted = fit.interrupted
    try:
        if not interrupted:
            found.extend(checking.run())
    except Stopped:
        interrupted = True
    decided = [pod for pod in fit.pods if pod.node is not None]
    return Check(
        findings=tuple(by_level(found)),
        objects=len(given),
        pods=len(fit.pods),
        placed=len(decided),
        version=asked.gates.version,
        next_version=checking.next_version,
        fail_on=fail_on,
        shown=shown,
        interrupted=interrupted,
    )


class _Checking:
    """One check: the questions, one after the other. `fit`: the answer about the objects."""

    def __init__(self, asked: Asked, given: GivenObjects, fit: Fit, progress: Progress) -> None:
        self._asked, self._given, self._fit, self._progress = asked, given, fit, progress
        self._explained = 0
        self.next_version = next_version(asked.gates.version) or ""

    def run(self) -> Iterator[Finding]:
        """Yield the findings, as they become known. May raise Stopped."""
        changes = Changes(objects=list(accepted(self._given, self._fit)))
        after = self._asked.changed(changes, progress=self._progress)
        after.seed += 1  # what is made of templates next gets other names and uids
        created = after.snapshot
        after.move(with_nodes(created, self._fit))
        yield from found_by_fit(self._fit, self._given, self._around(changes), lambda owner: self._helped(after, owner))
        self._progress("queues")
        yield from Queues(created, self._given, lambda document: self._pods_of(after, document)).findings()
        self._progress("likely mistakes")
        yield from mistakes(after.world, after.snapshot, self._given)
        after.move(created)  # each try of a restart places the pods anew
        yield from self._restarts(after)
        yield from self._upgrade(after)

    def _around(self, changes: Changes) -> Around:
        """What else the apply leads to: asked only if it may be more than fit says."""
        known = self._asked.snapshot
        missing = (self._owner(pod.pod) for pod in self._fit.pods if not _placed(pod.outcome))
        rolled_out = any(owner is not None and owner.key in known.of_kind(owner.kind) for owner in missing)
        if not rolled_out and not any(pod.victims for pod in self._fit.pods):
            return Around()
        return Around.of(self._asked.what_if(changes, progress=self._progress))

    def _pods_of(self, after: Asked, document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """The pods that an object would have; none if the API server refuses one, which is a finding."""
        room = AdditionLimit(after.limits, self._progress)
        try:
            return Manifests(after.snapshot, after.seed, room).expand([document]).pods
        except QuestionError:
            return ()

    def _restarts(self, after: Asked) -> Iterator[Finding]:
        """What the next rollouts would lead to, of workloads whose pods are all placed now."""
        self._progress("the next rollouts")
        missing = {
            owner.title for pod in self._fit.pods if not _placed(pod.outcome) and (owner := self._owner(pod.pod))
        }
        documents = list(restarted(after.snapshot, self._given, missing))
        if not documents:
            return
        found = tried(after, documents, self._given, self._progress)
        if found.stuck:
            again = after.changed(Changes(objects=documents), progress=self._progress)
            for owner, rollout in found.stuck.items():
                step = self._helped(again, owner) or FIRST_OLD
                message = f"after the next change of its template, {rollout}"
                yield owner.finding("rollout-stuck", message, step, strategy_at(owner.kind))
        yield from found.uneven()

    def _upgrade(self, after: Asked) -> Iterator[Finding]:
        """What the next version of Kubernetes would decide otherwise about the objects. `after`: isn't asked again."""
        if not self.next_version:
            return
        self._progress(f"Kubernetes {self.next_version}")
        both = (after.gates, with_gangs(gates_of(self.next_version)))
        after.world.reset()
        try:
            found = upgrade_preview(
                after.snapshot,
                schedulers(after.snapshot, after.configuration, after.plugins, both, after.seed, after.world),
                both,
                matches=lambda pod: self._given.of_pod(pod.key) is not None,
                progress=self._progress,
            )
        except ConfigurationError as error:
            raise QuestionError("; ".join(str(error).splitlines())) from None
        for decision in found.decisions:
            owner = self._owner(decision.pod)
            if owner is not None:
                message = (
                    f"Kubernetes {self.next_version} decides otherwise about {plural(decision.pods, 'pod')}: "
                    f"{decision.before.text(decision.after)} before, {decision.after.text(decision.before)} then "
                    f"({', '.join(decision.causes)})"
                )
                yield owner.finding("next-version", message, "bayplan upgrade-preview shows what causes it")

    def _owner(self, pod: str) -> Given | None:
        return self._given.of_pod(pod)

    def _helped(self, asked: Asked, owner: Given) -> str:
        """The first change with which a pending pod of an object is placed; "" if none was found, or tried."""
        self._explained += 1
        if self._explained > _MOST_EXPLAINED:
            return ""
        pod = _pending_pod(asked, owner)
        found = () if pod is None else asked.explain(pod, progress=self._progress).help
        best = next((each for each in found if _SURGE in each.text), found[0] if found else None)
        return "" if best is None else f"{best.text} (tried)"


def _placed(outcome: str) -> bool:
    return outcome in {Fate.PLACED.value, Fate.PREEMPTS.value}


def _pending_pod(asked: Asked, owner: Given) -> str | None:
    """A pod of an object that has no node."""
    namespace, _, name = owner.key.partition("/")
    asked.world.reset()
    pods = asked.world.state.objects[POD]
    if owner.kind is POD:
        found = [pod for pod in (pods.get(owner.key),) if pod is not None]
    elif owner.kind in WORKLOADS:
        found = owned_by(asked.snapshot, pods, owner.kind, namespace, name)
    else:
        found = [pod for pod in pods.values() if workload_of(pod) and pod.key.startswith(f"{owner.key}-")]
    return next((pod.key for pod in found if not pod.node_name), None)
