"""The controllers of an embedded cluster, as in kube-controller-manager. They work with any API server.

Other packages use `controller`, `informers`, `manager`, `node_lifecycle`, `recorder`, `resource_claims`.
"""
