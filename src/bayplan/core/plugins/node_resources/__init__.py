"""NodeResourcesFit and NodeResourcesBalancedAllocation, and the code that they share.

Other packages use `balanced_allocation`, `fit`.
"""
