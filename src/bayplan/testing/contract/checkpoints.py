"""The promise about checkpoints: a plugin that takes back what it put into one goes on as the one that did."""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.binding_runner import run_permit, run_reserve
from bayplan.core.framework.capabilities import Checkpointed
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.runner import run_pre_filter
from bayplan.testing.contract.examples import BuiltExample, Example, pod_info
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import Subject, alone, ask, difference

_WRONG = (None, 1, "text", [1], {"": 1})
"""What no checkpoint is."""


@promise(
    "checkpoint",
    "a plugin that takes back what it put into a checkpoint gives the same answers",
    lambda subject: subject.has(Checkpointed),
)
def checkpoint(subject: Subject, example: Example) -> None:
    """Another plugin, which hasn't seen what led to the state, takes the checkpoint, also after it refused others."""
    plugin, world = subject.start(example)
    placed = [(pod_info(example.other), name) for name in list(example.nodes)[:1]]
    for pod, name in placed:
        profile, cycle = alone(plugin), CycleState()
        run_pre_filter(profile, cycle, pod, world.state.nodes)
        world.state.assume(pod, name)
        run_reserve(profile, cycle, pod, name)
        run_permit(profile, cycle, pod, name)
    for change in example.changes[:2]:
        change.make(world.state)
    raw = _encoded(plugin)
    later = example.build()
    for pod, name in placed:
        later.state.assume(pod, name)
    for change in example.changes[:2]:
        change.make(later.state)
    other = subject.make(later.handle)
    for wrong in _WRONG:
        _refuse(other, wrong)
    other.restore(msgspec.json.decode(raw))
    for pod in (world.pod, pod_info(example.other)):
        before, after = _answers(plugin, world, pod), _answers(other, later, pod)
        if found := difference(before, after, "before", "after the checkpoint was taken back"):
            raise Breach(
                f"{found}; the checkpoint was {raw.decode()}", "put all that answers depend on into checkpoint"
            )
    if (again := _encoded(other)) != raw:
        raise Breach(
            f"checkpoint returned {raw.decode()}, and {again.decode()} after that was taken back",
            "let restore remember all that checkpoint returns",
        )


def _answers(plugin: Any, world: BuiltExample, pod: PodInfo) -> dict[str, str]:
    return ask(plugin, world, pod).texts()


def _encoded(plugin: Any) -> bytes:
    try:
        return msgspec.json.encode(plugin.checkpoint(), order="sorted")
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Breach(
            f"checkpoint returned what is no JSON: {error}", "return dicts, lists, texts and numbers"
        ) from error


def _refuse(plugin: Any, wrong: Any) -> None:
    """Raises Breach if a plugin takes what is no checkpoint of its own and can't be encoded then."""
    try:
        plugin.restore(wrong)
    except Exception:  # noqa: BLE001 - it may refuse by any exception
        return
    _encoded(plugin)
