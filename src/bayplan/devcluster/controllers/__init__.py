"""The controllers of an embedded cluster: API clients that make pods of workloads and keep nodes' and budgets' state.
Nothing in here knows which API server it talks to; nothing schedules.
"""
