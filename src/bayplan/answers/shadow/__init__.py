"""What Bayplan would have decided beside any scheduler of a cluster, and why the two differ.

Start reading at `shadow.py`: events of a cluster in, comparisons out. It only reads.
"""
