"""Authentication and authorization: users, RBAC, and the default roles.

The server calls `access.py`; `rbac.py` makes the decisions.

Other packages use `access`, `aggregation`, `attributes`, `bootstrap_policy`, `claim_status`, `escalation`,
`service_account_tokens`, `users`.
"""
