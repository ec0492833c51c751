"""Counts a member of a gang on its node in a what-if, together with what its plugins reserve there.

The next members then see neither the room nor the devices and volumes that the earlier ones take. Mirrors
assumeAndReserve and unreserveAndForget in pkg/scheduler/schedule_one.go, in the pod group cycle.
"""

from __future__ import annotations

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import StateWhatIf
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.binding_runner import run_release, run_reserve
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.framework.verdicts import Diagnosis
from bayplan.core.scheduling.cycle import Options
from bayplan.core.scheduling.decision import Decision, Outcome


def place(decision: Decision, node: str, what_if: StateWhatIf, profile: Profile, options: Options) -> bool:
    """Count a member on a node, with its victims gone, and reserve what it needs there.

    Returns whether that succeeded. If not, the what-if is as before, and the decision is a rejection or an error.
    """
    mark = what_if.mark()
    for victim in decision.victims:
        what_if.remove(victim.uid)
    placed = what_if.place(assumed_as(decision.cycle, decision.pod, node), node)
    what_if.changed(lambda: _release(decision, placed, profile, options))
    try:
        status = run_reserve(profile, decision.cycle, placed, node)
    except PluginError as error:
        options.record(error, decision.pod)
        status = Status.error(str(error)).by(error.plugin)
    if status.code is Code.SUCCESS:
        return True
    what_if.undo_to(mark)
    for victim in decision.victims:
        what_if.restore(victim.uid)
    _reject(decision, status)
    return False


def _release(decision: Decision, placed: PodInfo, profile: Profile, options: Options) -> None:
    for error in run_release(profile, decision.cycle, placed, placed.node_name or ""):
        options.record(error, decision.pod)


def _reject(decision: Decision, status: Status) -> None:
    """Let a decision say that Reserve did not succeed."""
    decision.node, decision.nominated_node, decision.victims = None, "", ()
    if not status.rejected:
        decision.outcome, decision.message, decision.failed_plugin = Outcome.ERROR, status.message, status.plugin
        return
    plugins = frozenset({status.plugin} - {""})
    decision.outcome = Outcome.UNSCHEDULABLE
    decision.diagnosis = Diagnosis(1, pre_filter_message=f"1 {status.message}", unschedulable_plugins=plugins)
    decision.message = decision.diagnosis.explain()
