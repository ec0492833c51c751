"""Histories simulated with other schedulers, plugins and node pools, and compared.

Start at `comparison.py` (compare) or `simulated.py` (simulate). `lookahead.py` reads what has to be known first,
`stream.py` makes happenings of a history, `running.py` simulates them with models, and `figures.py` has the numbers.
`decisions.py` asks recorded decisions again, and `differences.py` looks for the next one that differs;
`bayplan.answers.judging` says which do.

Other packages use `changed_pods`, `comparison`, `differences`, `errors`, `limited`, `lookahead`, `new_pools`,
`questions`, `report`, `running`, `sample`, `settings`, `shown`, `simulated`.
"""
