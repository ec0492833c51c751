"""GangScheduling: places the pods of a Kubernetes PodGroup together.

Other packages use `plugin`.
"""
