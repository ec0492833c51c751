"""What happened in a cluster over time, in a folder of Parquet files. `bayplan.history` has its public names.

Start at `format.py`, then `reading.py`.
"""
