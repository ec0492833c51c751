"""What Bayplan would have decided beside any scheduler of a cluster, and why the two differ. It only reads.

Start at `shadow.py`: events of a cluster in, comparisons out. `moments.py` looks for the state that the scheduler
decided on, `judging.py` asks Bayplan in it, and `comparisons.py` lists the causes of differences. `following.py` feeds
it by list and watch, through a backlog (`backlog.py`), and asks the sources of measurements (`feeds.py`). `doubts.py`
guesses the configuration that the scheduler has, of scores (`evidence.py`) and their likelihood (`fitting.py`).
`agreement.py` and `record.py` have what was found over time, in bounded space.

A shadow belongs to one event loop. What compares decisions reads no clock and does no I/O.

Other packages use `comparisons`, `following`, `metrics`, `record`, `report`, `shadow`, `shown`.
"""
