"""DynamicResources: claims on devices. Start at `plugin.py`, then `allocator.py`."""
