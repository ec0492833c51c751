"""The built-in kinds: the catalog of their facts and strategies, and the admission plugins."""
