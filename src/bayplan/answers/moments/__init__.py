"""Moments: something that happened, gone through step by step, with the cluster as it was between any two steps.

    number = moments.at(time)           # the moment of a time; moments 0 to len(moments) exist
    moments.steps                       # what happened: step n leads from moment n - 1 to moment n
    moments.snapshot(number)            # the cluster at that moment

`moments.py` has the protocol. A history (`bayplan.answers.history.moments`) and a recording
(`bayplan.answers.replay.recorded_moments`)
implement it; the page and the commands with `--at` ask it.

Other packages use `moments`, `steps`.
"""
