"""NodeMetadata: prefers nodes by a number or a time in a label or an annotation. Mirrors pkg/nodemetadata.

`plugin.py` is the plugin, and `layouts.py` reads times in Go's layouts.
"""
