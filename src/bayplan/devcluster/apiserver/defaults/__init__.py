"""The defaults of each kind. Mirrors Kubernetes' pkg/apis/*/v1/defaults.go.

Functions change the object in place and are idempotent.
"""
