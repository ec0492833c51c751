"""Replays: recorded decisions are made again, from what they rested on.

    policy = recorded_policy(recording, named)
    policy.replay(recording).run()                 # up to the first decision that differs, if there is one

The queue, the attempts, the executor and the handlers of events are the service's own. What was outside (time, replies,
random numbers) are the entries of the recording: `scheduler.py` takes them in, `ports.py` gives them back. Times belong
to the entry in whose effect they were read; measures and time slices have clocks of their own, on which no decision
rests. Work beside attempts is numbered, and its coroutine is stepped where the recorded one went on (`tasks.py`). Plans
are made again and compared (`replay.py`); `causes.py` finds why one differs, `candidates.py` asks another policy at
each decision. `recorded_plugins.py` has the rule about plugins: the user names them, and nothing that a recording names
is imported.

Other packages use `candidates`, `causes`, `moments`, `outcome`, `policies`, `recorded_moments`, `recorded_plugins`,
`redaction`, `replay`, `wanted`, `why`.
"""
