"""The controllers of an embedded cluster, as in kube-controller-manager. They work with any API server.

Other packages use `controller`, `cron_schedule`, `daemon_pods`, `device_taints`, `informers`, `job_pods`, `manager`,
`node_lifecycle`, `ownership`, `pods`, `recorder`, `replicaset`, `resource_claims`, `rollout`, `served`,
`stateful_pods`, `taint_eviction`, `volume_matching`.
"""
