"""Redaction of snapshots, so that they can be shared. Start at `redacting.py`.

Other packages use `kinds`, `names`, `pods`, `redacting`, `rules`.
"""
