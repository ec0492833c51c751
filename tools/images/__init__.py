"""Images: built with the program that is there, read as archives, and tried as a kubelet runs them.

`python -m tools.images build` is `make image`, and `python -m tools.images try` is `make test-image`. An archive has
the layout of the Open Container Initiative, whichever program wrote it: its digest and contents are read from there.
"""
