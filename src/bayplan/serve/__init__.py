"""Questions for programs and assistants: JSON over HTTP (`bayplan serve`), and tools (`bayplan mcp`).

Both only read the cluster. Start reading at `operations.py`.
"""
