"""DynamicResources: allocates devices to ResourceClaims. Start with `plugin.py`, then read `allocator.py`.

A search (`allocator.py`) finds devices in the pools that a node can use (`node_pools.py`). For each kind of demand, a
pool keeps the devices that can satisfy it until its allocations change (`candidates.py`); devices that are the same as
one that failed aren't tried (`interchangeable.py`). Verdicts and scores are columns, one for each distinct shape of
claims (`offers.py`). A row is searched again when its slices, its labels or its pools change. Reserve takes what Filter
found on the node. What differs between versions of kube-scheduler and its gates is a value (`rules.py`). What claims
take of a node's own resources is a column, too (`provisions.py`, `node_allocatable.py`).

Other packages use `plugin`.
"""
