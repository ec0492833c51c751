"""Reserve gives back what it took: after Unreserve all is as it was, however often and whenever that is called."""

from __future__ import annotations

from bayplan.api.kinds import NODE
from bayplan.framework import interface
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Point
from bayplan.framework.runner import run_pre_filter, run_reserve, run_unreserve
from bayplan.framework.status import PluginError
from bayplan.testing.contract.answers import differs
from bayplan.testing.contract.examples import Example, pod_info
from bayplan.testing.contract.faults import Finding
from bayplan.testing.contract.subject import Subject, alone, ask


def check_reserve(subject: Subject, example: Example) -> Finding | None:
    """Unreserve undoes Reserve, does nothing the second time, and nothing for a pod that was never reserved."""
    if not subject.takes_part(Point.RESERVE):
        return None
    world = example.build()
    plugin = subject.build(world.handle)
    profile, decides = alone(plugin), subject.decides or subject.has(interface.PreEnqueue)
    before = ask(plugin, world) if decides else None
    for node in [document["metadata"]["name"] for document in example.of(NODE)]:
        for what, reserved in (("Unreserve without Reserve", False), ("Reserve and Unreserve", True)):
            cycle, pod = CycleState(), pod_info(example.pod)
            try:
                run_pre_filter(profile, cycle, pod, world.state.nodes)
                if reserved:
                    run_reserve(profile, cycle, pod, node)
            except PluginError as error:
                return Finding(str(error), f"let {error.point} answer None, a reason or a Status")
            for times in ("", " twice"):
                errors = run_unreserve(profile, cycle, pod, node)
                if errors:
                    return Finding(
                        f"{what}{times} on node {node}: {errors[0]}",
                        "let unreserve forget what it finds of the pod, and raise nothing where there is nothing",
                    )
            difference = differs(before, ask(plugin, world)) if before is not None else ""
            if difference:
                return Finding(
                    f"after {what} on node {node}, {difference}",
                    "let unreserve give back exactly what reserve took for this pod, and nothing twice",
                )
    return None
