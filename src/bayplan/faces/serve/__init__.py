"""Questions for programs: JSON over HTTP, and transactions (`bayplan serve`). They only read the cluster.

Start reading at `operations.py`.
"""
