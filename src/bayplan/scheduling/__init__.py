"""One decision: filter, score, select, and what follows when nothing fits. Pure: no I/O, no clock, no global random."""

from bayplan.scheduling.cycle import Cycle, CycleOptions, decide, scheduling_cycle
from bayplan.scheduling.decision import Decision, Outcome, Scores
from bayplan.scheduling.sampling import Rotation
from bayplan.scheduling.templates import Templates

__all__ = [
    "Cycle",
    "CycleOptions",
    "Decision",
    "Outcome",
    "Rotation",
    "Scores",
    "Templates",
    "decide",
    "scheduling_cycle",
]
