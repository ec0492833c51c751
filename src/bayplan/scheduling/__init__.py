"""One attempt: filter, score, select, and preemption if no node is feasible. No I/O, no clock, no global random."""

from bayplan.scheduling.attempt import Attempt, attempt, decide, run
from bayplan.scheduling.contention import contends
from bayplan.scheduling.cycle import Options
from bayplan.scheduling.decision import Decision, Outcome, Scores
from bayplan.scheduling.gangs import PAUSE, Request, TakeMembers
from bayplan.scheduling.plan import Plan, Preemption, Refusal
from bayplan.scheduling.sampling import Rotation
from bayplan.scheduling.unit import Unit, unit_of

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
