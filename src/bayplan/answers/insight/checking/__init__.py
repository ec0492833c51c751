"""check: what an apply of manifests would lead to, as findings for a pull request.

    check(insight, documents).findings      # each with its rule, object, file, line and next step

Nothing is decided here. The answers are those of fit, what-if, explain and upgrade-preview (`check.py` asks them);
`placing.py` and `rollouts.py` read findings off them. `mistakes.py` lists what users get wrong in manifests that the
API server takes: `selecting.py` has those about selectors, `workloads.py` those about a single workload. `rules.py` has
all rules, `forms.py` the forms that pipelines read.

Other packages use `check`.
"""
