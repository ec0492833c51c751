"""An autoscaler: groups with prices and limits, scale-up by simulating, scale-down by idleness or consolidation.

Other packages use `autoscaler`, `groups`, `rules`, `trials`.
"""
