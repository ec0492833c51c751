"""The controllers of an embedded cluster, as in kube-controller-manager. They work with any API server."""
