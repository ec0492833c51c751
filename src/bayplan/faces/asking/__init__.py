"""What all faces share that ask questions for others: the page, serve and assistants.

A question is asked in a worker thread, about a source that may change, for a limited time; its progress is told. A
guard lets in those who may ask. Start at `asking.py`; `worker.py` has the thread. Faces import this package, and never
each other.
"""
