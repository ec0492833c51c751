"""NodeResourcesFit and NodeResourcesBalancedAllocation, and the code that they share."""
