"""Signs in a snapshot that its scheduler has plugins which a question without a configuration doesn't know.

Plugins leave labels on pods, objects, and messages in conditions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from shlex import quote

import msgspec

from bayplan.answers.insight.answers import listed
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.coscheduling import LIGHTWEIGHT_PREFIX, POD_GROUP_LABEL
from bayplan.core.api.coscheduling import POD_GROUPS as COSCHEDULING_POD_GROUPS
from bayplan.core.api.kinds import POD, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.config.catalog import in_tree_names, provided_names
from bayplan.core.config.origins import COSCHEDULING, KOORDINATOR, SCHEDULER_PLUGINS, origin_of
from bayplan.core.versions import gates_of, with_gangs

_LABELS = POD_GROUP_LABEL, LIGHTWEIGHT_PREFIX
_MARKS = tuple(label.encode() for label in _LABELS)
_PLACED = re.compile(rb'"nodeName":\s*"[^"]')

_MESSAGES = (
    (re.compile(r'running "?([\w.-]+)"? \w+ plugin'), ""),
    (re.compile(r'running \w+ plugin "([\w.-]+)"'), ""),
    (re.compile(r"at plugin ([\w.-]+)"), ""),
    (re.compile(r"cannot find enough sibling pods|PodGroup \S+ gets rejected"), COSCHEDULING),
    (re.compile(r"ElasticQuota \S+ is more than M|total ElasticQuota used is more than"), "CapacityScheduling"),
    (re.compile(r"cannot align (pod|container)"), "NodeResourceTopologyMatch"),
    (re.compile(r"usage exceed threshold"), "LoadAwareScheduling"),
    (re.compile(r"[Gg]ang \"[^\"]+\" (gets rejected|has not init)"), "koord"),
    (re.compile(r"pod group is not ready|tasks in gang unschedulable"), "volcano"),
)
"""Messages of conditions, and the plugin that writes them, whose name a group of the pattern may have."""
_PROJECTS = {"koord": KOORDINATOR, "volcano": "Volcano"}

_NAMED = 3


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    schedulerName: str = "default-scheduler"


class _Condition(msgspec.Struct):
    type: str = ""
    message: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def unknown_schedulers(snapshot: Snapshot, served: Collection[str]) -> Iterator[str]:
    """What the snapshot tells about schedulers that decide differently, one line each, with what to pass instead.

    `served`: the scheduler names that are answered for, with the default plugins.
    """
    in_groups, names, plugins = 0, Counter[str](), Counter[str]()
    for raw in snapshot.of_kind(POD).values():
        pending = not _PLACED.search(raw)
        grouped = any(mark in raw for mark in _MARKS)
        if not (pending or grouped):
            continue
        try:
            pod = msgspec.json.decode(raw, type=_Pod)
        except (msgspec.MsgspecError, UnicodeDecodeError):  # reported when the pod is read
            continue
        in_groups += grouped and any(label.startswith(_LABELS) for label in pod.metadata.labels or ())
        if pending:
            if pod.spec.schedulerName not in served:
                names[pod.spec.schedulerName] += 1
            plugins.update(_plugins_in_messages(pod))
    yield from _of_groups(snapshot, in_groups)
    yield from _of_names(names, served)
    for name, count in sorted(plugins.items()):
        if name != COSCHEDULING or not in_groups:
            yield f"{_pods(count)} pending with a message of {_owner(name)}"


def _of_names(names: Mapping[str, int], served: Collection[str]) -> Iterator[str]:
    """One line for each name that may be a typing error, and one for all others."""
    meant = {name: did_you_mean(name, served) for name in sorted(names)}
    for name, near in meant.items():
        if near:
            yield f"{_pods(names[name])} pending for the scheduler {name}, which isn't served here{near}"
    others = [name for name, near in meant.items() if not near]
    passed = " ".join(f"--scheduler-name {quote(name)}" for name in others[:_NAMED])
    count = _pods(sum(names[name] for name in others))
    if len(others) == 1:
        yield (
            f"{count} pending for the scheduler {others[0]}, which isn't served here: pass {passed}, and --config with "
            "its configuration if it has one"
        )
    elif others:
        yield (
            f"{count} pending for the schedulers {listed(others, _NAMED)}, which aren't served here: pass {passed}, "
            "and --config with their configurations if they have some"
        )


def _of_groups(snapshot: Snapshot, in_groups: int) -> Iterator[str]:
    if in_groups or snapshot.of_kind(custom_kind(COSCHEDULING_POD_GROUPS)):
        there = f"{_pods(in_groups)} in PodGroups" if in_groups else "there are PodGroups"
        yield (
            f"{there} of {SCHEDULER_PLUGINS}, which the default plugins don't place together: pass --config with a "
            "configuration that enables Coscheduling, as docs/gangs.md shows"
        )
    gates = with_gangs(gates_of(snapshot.followed.version))
    if not gates.enabled("TopologyAwareWorkloadScheduling") and any(
        b'"schedulingConstraints"' in raw for raw in snapshot.of_kind(custom_kind(POD_GROUPS)).values()
    ):
        yield (
            "there are PodGroups with schedulingConstraints, which the default plugins ignore: pass --config with a "
            "configuration that enables TopologyPlacementGenerator and PodGroupPodsCount"
        )


def _plugins_in_messages(pod: _Pod) -> Iterator[str]:
    """The plugins that wrote the message of the pod's PodScheduled condition and aren't default ones."""
    for condition in pod.status.conditions or ():
        if condition.type != "PodScheduled" or not condition.message:
            continue
        for pattern, plugin in _MESSAGES:
            found = pattern.search(condition.message)
            name = "" if found is None else plugin or found.group(1)
            if name and name not in in_tree_names():
                yield name
                return


def _owner(name: str) -> str:
    if name in _PROJECTS:
        return f"{_PROJECTS[name]}, whose plugins aren't known here: the answers are those of the default plugins"
    if name in provided_names():
        return f"the plugin {name}: pass --config with a configuration that enables it"
    origin = f" of {origin_of(name)}" if origin_of(name) else ""
    return f"the plugin {name}{origin}, which isn't known here: pass --plugin FILE if you have it in Python"


def _pods(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
