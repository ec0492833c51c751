"""The in-tree plugins, one a file, and `registry.py`, the explicit ordered list. Plugins never import each other."""
