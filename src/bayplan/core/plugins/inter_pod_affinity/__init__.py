"""InterPodAffinity: places pods near or away from other pods.

Other packages use `plugin`.
"""
