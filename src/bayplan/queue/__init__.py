"""Which pod is looked at next: active, backoff, unschedulable and gated pods, in-flight events, nominations.
A pure state machine: the time comes in as an argument.
"""
