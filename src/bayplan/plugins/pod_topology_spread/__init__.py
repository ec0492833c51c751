"""PodTopologySpread: pods of a kind are spread over the domains of a topology."""
