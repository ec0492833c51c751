"""Questions for assistants: tools of the Model Context Protocol (`bayplan mcp`). They only read the cluster.

Start at `server.py`. Each question of `bayplan.faces.asking.served_questions` is a tool (`tools.py`), short enough for
a model (`shortening.py`); malformed messages are answered (`malformed.py`). It speaks over standard input and output,
or HTTP (`http.py`). No other package imports the SDK.

Other packages use `http`, `recordings`, `server`.
"""
