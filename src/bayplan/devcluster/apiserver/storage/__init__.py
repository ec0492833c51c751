"""Storage: objects and their history, the facts and the strategy of each kind, and the path that every write takes."""
