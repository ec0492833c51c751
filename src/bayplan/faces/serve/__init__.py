"""Questions for programs: JSON over HTTP, and transactions (`bayplan serve`). They only read the cluster.

Start at `operations.py`, the form of an operation: requests are routed by it (`app.py`), and the OpenAPI document is
made of it (`openapi.py`). `transactions.py` has what-ifs that stay open, and `placing.py` places batches of pods in
them.

Other packages use `server`.
"""
