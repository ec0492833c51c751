"""GangScheduling: pods of one of Kubernetes' own PodGroups are placed together."""
