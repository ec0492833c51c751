"""The scheduling framework: extension points, statuses, verdicts, events and hints, profiles, and the runner that calls
plugins. It holds no scheduling policy.
"""
