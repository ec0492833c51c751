"""Validates the objects of each kind, with kube-apiserver's messages. Objects are not changed."""
