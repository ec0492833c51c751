"""DefaultPreemption and WorkloadAwarePreemption: evict pods of lower priority to make room for pending pods.

Other packages use `chosen_dry_run`, `plugin`, `whole_groups`.
"""
