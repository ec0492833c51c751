"""Recordings: everything that the decisions of a running scheduler rest on, in the order in which it was taken in.

A scheduler is a function of what reaches it from outside: watch events, the time, replies and random numbers. A
`DecisionRecorder` (`recorder.py`) wraps each of these ways in and adds an entry (`entries.py`) when something comes; it
doesn't know what the scheduler does with it. Checkpoints are taken when nothing is being bound, as references, and
encoded in the writer's thread (`writing.py`). Files are read without trust: `files.py`, `frames.py`.

To let decisions rest on something new from outside: an entry here, where it comes in, what gives it back
(`bayplan.answers.replay.ports`), and how it is redacted (`bayplan.answers.replay.redaction`).

Other packages use `entries`, `files`, `frames`, `memories`, `places`, `recorder`, `summaries`, `turns`, `writing`.
"""
