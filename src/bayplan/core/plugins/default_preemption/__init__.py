"""DefaultPreemption and WorkloadAwarePreemption: evict pods of lower priority to make room for pending pods.

Plugins of others are made of DefaultPreemption with a policy about who may be evicted (`chosen_dry_run.py`).

Other packages use `chosen_dry_run`, `plugin`, `whole_groups`.
"""
