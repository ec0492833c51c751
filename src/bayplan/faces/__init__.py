"""The faces of Bayplan: the command line, the page, the HTTP service and the tools of assistants.

They ask `bayplan.answers` and print; none of them knows a rule, and the page, the service and the tools don't import
each other. What those three share is `asking`: a worker with limits, progress, sources that follow a cluster, and the
guard. Start at `cli/__init__.py` for a command, or at `asking/asking.py` for how a question is asked once.

Other packages use `cli`.
"""
