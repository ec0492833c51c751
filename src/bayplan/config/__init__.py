"""KubeSchedulerConfiguration as typed values, strictly read, with defaults, and the profiles built from it."""
