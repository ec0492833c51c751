"""Storage: objects and their history, the facts and the strategy of each kind, and the steps of a write."""
