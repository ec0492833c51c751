"""What the server fills in where a client left something open, per kind. Mirrors Kubernetes' pkg/apis/*/v1/defaults.go.

Functions change the object in place and may be applied to their own result.
"""
