"""Who asks, and whether they may: authentication, RBAC, and the roles that every cluster has.

`access.py` is what the server asks; `rbac.py` decides.
"""
