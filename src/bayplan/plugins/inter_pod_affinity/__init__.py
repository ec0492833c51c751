"""InterPodAffinity: pods want to be near some pods, and away from others."""
