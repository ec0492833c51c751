"""A cluster without an API server: decisions of the real scheduler, carried out on a state in memory."""
