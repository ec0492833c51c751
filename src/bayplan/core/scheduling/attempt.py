"""attempt: decide one unit, a pod or a gang. It reads the state and never acts; the result is a Plan.

It is a generator, which changes the state only inside what-ifs that it undoes. It yields what it needs from outside: a
question for extenders (`bayplan.core.framework.extenders`), the members of a gang that can be attempted now, or a pause
in which other work may run. Without extenders, the attempt of a single pod never yields. Every driver uses this
generator: the service, conformance, benchmarks and tests. A bug of a plugin fails the pod's attempt, with the plugin's
name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.calling import Caller, call
from bayplan.core.framework.pod_run import PodRun, Start
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling.cycle import Options, SchedulingCycle
from bayplan.core.scheduling.decision import Decision
from bayplan.core.scheduling.gangs import GangAttempt, Request, TakeMembers
from bayplan.core.scheduling.plan import Plan
from bayplan.core.scheduling.sampling import Rotation
from bayplan.core.scheduling.unit import Unit
from bayplan.foundations.failures import Failures

Attempt = Generator[Request, Any, Plan]
"""Yields what it needs from outside: a `Question`, answered by extenders or with an ExtenderError thrown in;
`TakeMembers`, answered with the members that can be attempted now, by uid; or `PAUSE`, where other work may run.

Until it returns, nothing else may change the state; it undoes its own changes.
"""


def attempt(
    unit: Unit, profile: Profile, state: ClusterState, rng: random.Random, options: Options | None = None
) -> Attempt:
    """Decide about a unit. Errors of plugins and extenders are part of the plan; only bugs are raised.

    A pod whose resize is deferred is placed on its node if the resize has room; else, others may be preempted for that.

    Mirrors the scheduling part of ScheduleOne, and podGroupCycle in pkg/scheduler/schedule_one_podgroup.go.
    """
    options = options or Options()
    if unit.gang is not None:
        return (yield from GangAttempt(unit, profile, state, rng, options).run())
    if profile.resizes(unit.pod):
        profile, options = profile.for_resizes(), replace(options, start=PodRun.start)
    return Plan.of(unit, (yield from SchedulingCycle(profile, state, unit.pod, rng, options).run()))


def run(steps: Attempt, takes: Callable[[PodInfo], bool] = lambda _: True) -> Plan:
    """Run an attempt to its end without extenders, queue or pauses. `takes`: whether a member of a gang is attempted.

    Raises AssertionError if the attempt needs extenders.
    """
    reply = None
    try:
        while True:
            request = steps.send(reply)
            assert request is None or isinstance(request, TakeMembers), f"no extenders to answer {request}"
            reply = None if request is None else {pod.uid: pod for pod in request.members if takes(pod)}
    except StopIteration as end:
        plan: Plan = end.value
        return plan


def decide(
    profile: Profile,
    state: ClusterState,
    pod: PodInfo,
    rng: random.Random,
    *,
    explain: bool = False,
    start: Start = PodRun.start,
    rotation: Rotation | None = None,
    call: Caller = call,
    failures: Failures | None = None,
) -> Decision:
    """Attempt a pod by itself, without extenders, and return the decision. See `Options` for the arguments."""
    options = Options(explain=explain, start=start, rotation=rotation, call=call, failures=failures)
    return run(attempt(Unit(pod), profile, state, rng, options)).decisions[0]
