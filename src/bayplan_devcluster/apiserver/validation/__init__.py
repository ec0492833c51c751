"""Validates the objects of each kind, with kube-apiserver's messages. Objects are not changed.

Other packages use `attributes`, `devices`, `meta`, `pod_updates`, `rules`.
"""
