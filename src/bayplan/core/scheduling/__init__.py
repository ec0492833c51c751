"""One attempt: how the scheduler thinks. An attempt takes a unit (a pod or a gang) and returns a plan, as a value.

It reads the state, and changes it only inside what-ifs, which it undoes. No I/O, no clock, no global random numbers.
`decide` makes a decision where there are no extenders and no queue, as in tests and in conformance. Start at
`attempt.py`, then `cycle.py` for a pod and `gangs.py` for a gang; `plan.py` and `decision.py` are the results. What
happens to a plan is decided in `bayplan.core.executor` alone.

Other packages use `attempt`, `cycle`, `decision`, `reservations`, `sampling`.
"""

from bayplan.core.scheduling.attempt import Attempt, attempt, decide, run
from bayplan.core.scheduling.contention import contends
from bayplan.core.scheduling.cycle import Options
from bayplan.core.scheduling.decision import Decision, Outcome, Scores
from bayplan.core.scheduling.fit import Shortfall
from bayplan.core.scheduling.gang_search import PAUSE
from bayplan.core.scheduling.gangs import Request, TakeMembers
from bayplan.core.scheduling.plan import GangReport, Plan, Preemption, Refusal
from bayplan.core.scheduling.sampling import Rotation
from bayplan.core.scheduling.unit import Unit, unit_of

__all__ = [
    "PAUSE",
    "Attempt",
    "Decision",
    "GangReport",
    "Options",
    "Outcome",
    "Plan",
    "Preemption",
    "Refusal",
    "Request",
    "Rotation",
    "Scores",
    "Shortfall",
    "TakeMembers",
    "Unit",
    "attempt",
    "contends",
    "decide",
    "run",
    "unit_of",
]
