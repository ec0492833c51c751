"""What other flags of `kubectl drain` would change where it refuses nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayplan.answers.insight.answers import listed, plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.drain_rules import (
    DAEMON_SET_FATAL,
    LOCAL_STORAGE_FATAL,
    UNMANAGED_FATAL,
    DrainRules,
)
from bayplan.core.cluster.pod_info import PodInfo

_FLAGS = {
    DAEMON_SET_FATAL: "ignore_daemonsets",
    LOCAL_STORAGE_FATAL: "delete_emptydir_data",
    UNMANAGED_FATAL: "force",
}
"""error of kubectl -> the flag that lifts it. All others are about missing controllers, and `force` lifts them."""
_ORDER = tuple(_FLAGS.values())


@dataclass(frozen=True, slots=True)
class WithFlags:
    """What the same drain leads to with more flags.

    `flags`: those that are added, as on the command line. `nodes` and `pods`: how many by outcome. `text`: in one
    sentence.
    """

    flags: tuple[str, ...]
    drains: bool
    nodes: Mapping[str, int]
    pods: Mapping[str, int]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as in docs/insight.md."""
        return fields_of(self, "text")


def more_flags(rules: DrainRules, nodes: Iterable[Sequence[PodInfo]]) -> Iterator[tuple[tuple[str, ...], DrainRules]]:
    """Yield rules with more flags, each time with those that further refused nodes need, the fewest first.

    `nodes`: the pods of each node. The flags are spelled as on the command line.
    """
    needed = {_needed(rules, pods) for pods in nodes} - {frozenset()}
    flags: frozenset[str] = frozenset()
    for each in sorted(needed, key=lambda each: (len(each), sorted(map(_ORDER.index, each)))):
        if not each <= flags:
            flags |= each
            names = tuple(f"--{name.replace('_', '-')}" for name in _ORDER if name in flags)
            yield names, _with(rules, flags)


def _needed(rules: DrainRules, pods: Sequence[PodInfo]) -> frozenset[str]:
    """The flags with which a node isn't refused. A pod may need several of them."""
    flags: set[str] = set()
    while refused := _with(rules, flags).sort(pods).refused:
        more = {_FLAGS.get(message, "force") for message in refused}
        if more <= flags:
            break
        flags |= more
    return frozenset(flags)


def _with(rules: DrainRules, flags: Collection[str]) -> DrainRules:
    return replace(
        rules,
        ignore_daemonsets=rules.ignore_daemonsets or "ignore_daemonsets" in flags,
        delete_emptydir_data=rules.delete_emptydir_data or "delete_emptydir_data" in flags,
        force=rules.force or "force" in flags,
    )


def summed_up(messages: Mapping[str, Sequence[str]], *, wide: bool) -> Iterator[tuple[str, str]]:
    """Yield kubectl's messages as (nodes, message): equal ones of several nodes as one, unless `wide`.

    `messages`: those of each node, with pods after the last colon.
    """
    found: dict[str, dict[str, str]] = {}
    for node, lines in messages.items():
        for line in lines:
            what, _, pods = line.rpartition(": ")
            found.setdefault(what, {})[node] = pods
    for what, nodes in found.items():
        if wide or len(nodes) == 1:
            yield from ((f"node {node}", f"{what}: {pods}") for node, pods in nodes.items())
        else:
            every = [pod for each in nodes.values() for pod in each.split(", ")]
            yield f"{plural(len(nodes), 'node')} ({listed(list(nodes))})", f"{what}: {listed(every)}"
