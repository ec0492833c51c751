"""What all faces share that ask questions for others: the page, serve and assistants.

A question is asked in a worker thread, about a source that may change, for a limited time; its progress is told. A
guard lets in those who may ask. Start at `asking.py`; `worker.py` and `ending.py` have the thread, `sources.py` the
source, `guard.py` the guard, `routing.py` and `replies.py` requests and replies. Faces import this package, and never
each other.

The event loop of the server never touches a World: the worker thread owns it.

Other packages use `answering`, `asking`, `events`, `guard`, `replies`, `routing`, `running`, `schemas`,
`served_questions`, `sources`, `worker`.
"""
