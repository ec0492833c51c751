"""Expansion: the pods that a workload would have, and what else its controllers would make of it. Pure functions.

    pods.from_template(template, REPLICA_SET, replica_set)      # a pod of a ReplicaSet, without its name
    daemon_pods.new_pod(daemon_set, digest, "node-3")           # the one of a DaemonSet for a node
    scale_down_order(pods, siblings)[:2]                        # those that go first

Each module mirrors a controller of kube-controller-manager, without its requests: the embedded controllers
(`bayplan_devcluster.controllers`) carry out what these functions say, and `bayplan.answers.insight.manifests` asks them
what manifests lead to, which `expansion.py` has as a value. Objects have the types of `bayplan.core.api.served`.

Other packages use `claims`, `cron_schedule`, `daemon_pods`, `expansion`, `job_indexes`, `job_pods`, `own_claims`,
`owner_references`, `pods`, `provisioned_pods`, `rollout`, `scale_down`, `stateful_pods`, `volume_matching`.
"""
