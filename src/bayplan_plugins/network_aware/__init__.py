"""Network-aware scheduling: the workloads of an AppGroup that depend on each other are placed near each other.

`groups.py` reads the custom resources AppGroup and NetworkTopology. Mirrors pkg/networkaware of scheduler-plugins.
"""
