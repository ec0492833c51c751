"""A Kubernetes API client: transport, credentials, typed verbs, reflectors, and an in-process double of it for tests.
Usable without the rest of Bayplan.
"""
