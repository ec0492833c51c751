"""Recommendations: what containers should request, as other tools say it, and pods that request that.

    found = recommendations_in(documents)               # of VPA objects, KRR, Goldilocks or rows: one file per source
    change = WorkloadRequests(...).applied(pod_spec)    # the pod's spec with them

`reading.py` says of which source a document is. What can't be used is a problem of one line; the others are read.

Other packages use `applying`, `files`, `reading`, `recommendation`.
"""
