"""What happened in a cluster over time, in a folder of Parquet files. Start at `format.py`, then `reading.py`."""
