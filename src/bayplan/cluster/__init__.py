"""The cluster as columns: one row a node, pods on their rows, what-if overlays, and what plugins share between
decisions (assumed pods, nominated pods). State only: no verdict is formed here and nothing is written to a server.
"""
