"""DynamicResources: allocates devices to ResourceClaims. Start with `plugin.py`, then read `allocator.py`."""
