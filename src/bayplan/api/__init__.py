"""Kubernetes objects as typed values, and the arithmetic that belongs to them: quantities, selectors, tolerations,
resource requests, the table of kinds. Nothing here knows of a scheduler, and nothing of ours is imported.
"""
