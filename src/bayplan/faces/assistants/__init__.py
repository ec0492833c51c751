"""Questions for assistants: tools of the Model Context Protocol (`bayplan mcp`). They only read the cluster.

Start reading at `server.py`.
"""
