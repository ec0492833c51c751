"""One attempt: filter, score, select, and preemption if no node is feasible. No I/O, no clock, no global random."""

from bayplan.core.scheduling.attempt import Attempt, attempt, decide, run
from bayplan.core.scheduling.contention import contends
from bayplan.core.scheduling.cycle import Options
from bayplan.core.scheduling.decision import Decision, Outcome, Scores
from bayplan.core.scheduling.gangs import PAUSE, Request, TakeMembers
from bayplan.core.scheduling.plan import Plan, Preemption, Refusal
from bayplan.core.scheduling.sampling import Rotation
from bayplan.core.scheduling.unit import Unit, unit_of

__all__ = [
    "PAUSE",
    "Attempt",
    "Decision",
    "Options",
    "Outcome",
    "Plan",
    "Preemption",
    "Refusal",
    "Request",
    "Rotation",
    "Scores",
    "TakeMembers",
    "Unit",
    "attempt",
    "contends",
    "decide",
    "run",
    "unit_of",
]
