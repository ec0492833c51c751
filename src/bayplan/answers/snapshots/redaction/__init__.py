"""Redaction of snapshots, so that they can be shared. Start at `redacting.py`."""
