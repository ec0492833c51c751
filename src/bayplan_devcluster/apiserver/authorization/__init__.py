"""Authentication and authorization: users, RBAC, and the default roles.

The server calls `access.py`; `rbac.py` makes the decisions.
"""
