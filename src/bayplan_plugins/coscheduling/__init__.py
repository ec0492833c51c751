"""Coscheduling: binds the pods of a group together or not at all. Mirrors scheduler-plugins' pkg/coscheduling.

`plugin.py` is the plugin, `groups.py` what groups need, and `status.py` keeps the status of PodGroups.
"""
