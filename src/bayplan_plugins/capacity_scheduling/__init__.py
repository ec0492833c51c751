"""CapacityScheduling: elastic quotas of namespaces. Mirrors scheduler-plugins' pkg/capacityscheduling.

`plugin.py` is the plugin, `quotas.py` the ElasticQuotas, `usage.py` what pods use of them, `victims.py` who may be
evicted, and `status.py` keeps the status of ElasticQuotas.
"""
