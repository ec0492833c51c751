"""The commands that answer questions about a cluster, which they only read."""
