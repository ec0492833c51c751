"""PodTopologySpread: spreads pods over topology domains."""
