"""What happened in a cluster over time, in a folder of Parquet files.

    history = History.open("last-week")
    history.start()                      # the cluster at the start, as a Snapshot
    for event in history.events(): ...   # typed events, in the order of time

In the source, start at `format.py`, then `reading.py`. `following.py` turns versions of objects into rows, whatever
reports them: a recorder (`recording.py`) or an importer (`sources/`). `moments.py` has the cluster between any two
events. A history is of any scheduler; what the decisions of Bayplan's own rest on is a recording
(`bayplan.running.recording`).

`bayplan.history` has its public names.

Other packages use `ends`, `events`, `following`, `format`, `metrics`, `moments`, `reading`, `recording`,
`redacting`, `run_times`, `sample`, `sources`, `writing`.
"""
