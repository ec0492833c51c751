"""The questions: each is a function of a world (`bayplan.answers.simulation.world`) that returns an Answer.

    insight.drain(["node-3"])           # resets the world, and calls `questions.drain.drain` with it

No question knows a plugin by name: what a plugin can tell is a protocol of `bayplan.core.framework`. Explaining is in
`blockers.py` (what rejects), `changes.py` (what may help), `trying.py` (what does help).

Other packages use `balance`, `blockers`, `capacity`, `change`, `comparing`, `diff`, `doctor`, `documents`, `drain`,
`drain_rules`, `edits`, `explain`, `fit`, `freeing`, `further_trials`, `gangs`, `kueue`, `kueue_objects`, `new_objects`,
`node_groups`, `node_search`, `outcomes`, `pending`, `portable`, `quotas_of_kueue`, `raised_priority`,
`recorded_events`, `rejected_nodes`, `request_changes`, `requests_trials`, `rolling_out`, `scale_up`, `scores`,
`shrink`, `starts`, `suspended`, `targets`, `upgrade_preview`, `usage`, `utilization`, `what_if`, `when`,
`when_pending`, `why_not`, `workload`.
"""
