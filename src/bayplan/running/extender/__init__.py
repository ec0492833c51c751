"""The HTTP extender protocol, both sides.

`wire.py` has the shared types; `client*.py` asks other extenders for a scheduler; `server.py` answers another scheduler
(start at `running.py`, then `verbs.py`). The server uses the same runner on one state: the watched cluster
(`watched_cluster.py`), or the nodes of the request (`sent_nodes.py`). Only plugins that the user names run, because
kube-scheduler has already run its own.

Other packages use `client`, `paths`, `plugins`, `running`, `server`, `snippet`.
"""
