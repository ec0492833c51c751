"""DefaultPreemption and WorkloadAwarePreemption: evict pods of lower priority to make room for pending pods.

Other packages use `plugin`, `whole_groups`.
"""
