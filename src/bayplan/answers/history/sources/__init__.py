"""Where histories come from, other than from recording: one file each.

Other packages use `arrivals`, `audit`, `k8shark`, `kube_state_metrics`, `kwok`, `prometheus`, `recorded`, `simkube`,
`synthesis`, `trace`.
"""
