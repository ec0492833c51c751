"""Coscheduling: pods of one group are bound together or not at all. Mirrors scheduler-plugins' pkg/coscheduling."""
