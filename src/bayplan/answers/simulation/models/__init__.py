"""Models of what surrounds a scheduler. Each is a small class that can be replaced; `parameters.py` reads them.

Other packages use `autoscaler`, `budgets`, `interruptions`, `job_completions`, `job_durations`, `parameters`,
`run_times`.
"""
