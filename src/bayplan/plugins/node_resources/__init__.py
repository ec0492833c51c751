"""NodeResourcesFit and NodeResourcesBalancedAllocation, and the arithmetic that they share."""
