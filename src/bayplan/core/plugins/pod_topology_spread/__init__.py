"""PodTopologySpread: spreads pods over topology domains.

Other packages use `plugin`.
"""
