"""Results that pods share: a runner around the framework's, with a key of each pod and a memo of rows.

    SchedulingCycle: pre_filter, filter, score, what_if, rejected_like
          |
          |   PodRun ............ calls the profile's plugins (bayplan.core.framework.pod_run)
          |   SharedRun ......... the same methods, for a pod with a key
          v
    Sharing.start ---- keys.py ........ what do two pods have in common?   sign, rests_on -> PodKey
          |
          +---------- shared_runs.py . was an equal pod rejected in this state?   then that is the decision
          |
          +---------- rows.py ........ verdicts of all rows for one key; rows that changed are filtered again
          |              scores.py ....... their scores, computed when a decision needs them
          |              nominated.py .... the verdicts that count nominated pods
          v
    plugins that are unshared for this pod, run as in a PodRun

It saves time only. Without it, every attempt ends with the same decision (tests/properties/test_sharing.py):
`scheduling` calls a `PodRun` and doesn't know which one, and plugins declare what they read, not what is shared. A
verdict or score holds for a row until the row changes; where only pods changed, only plugins that read pods run again.
A whole rejection holds until anything changes. Results of the 32 latest keys of a profile are kept, from the second pod
of a key on. PostFilter plugins let it keep what they make for a key (`WhatIf.kept`), as the dry runs of preemption.

Other packages use `rows`.
"""

from bayplan.core.sharing.keys import PodKey
from bayplan.core.sharing.shared_runs import SharedRun, Sharing

__all__ = ["PodKey", "SharedRun", "Sharing"]
