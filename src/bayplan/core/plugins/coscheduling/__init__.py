"""Coscheduling: binds the pods of a group together or not at all. Mirrors scheduler-plugins' pkg/coscheduling.

Other packages use `arguments`, `plugin`.
"""
