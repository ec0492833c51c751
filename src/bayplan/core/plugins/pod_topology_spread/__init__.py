"""PodTopologySpread: spreads pods over topology domains.

`counting.py` counts for answers as Filter does.

Other packages use `counting`, `plugin`.
"""
