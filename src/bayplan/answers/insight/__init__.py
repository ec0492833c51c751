"""Answers to questions about scheduling on any cluster, which is only read.

    insight = Insight(Snapshot.open("cluster.json"))
    print(insight.explain("shop/web-1").text())     # an Answer: JSON, tables, HTML; see answers.py

A question is a function of a snapshot, a configuration and a seed; nothing else affects the answer. `Insight` keeps a
world (`bayplan.answers.simulation.world`) on which the real `attempt` decides, so no decision is made twice. Extenders
are not asked, backoff and the termination of pods take no time, and a rejected pod is tried again after the events that
its plugins registered. "Would be placed" is the outcome of `bayplan.answers.simulation.simulation`, in all questions.

Each method of `Insight` resets the world and calls one function of `questions/`, which it imports only then; `ask` asks
any question by its name. The world is as before after each question, also if `progress` raised `Stopped`. An Insight
belongs to one thread at a time.

Start at `insight.py`; `questions/` has the answers, one file per question, and `asked/` the parameters, as structs. To
add a question, see `asked/`. A case in tests/insight/questions shows its answer; docs/insight.md shows the cases, and
BAYPLAN_WRITE_ANSWERS=1 writes the answers.

`bayplan.insight` has its public names.

Other packages use `answers`, `asked`, `checking`, `durations_file`, `foresight`, `insight`, `json_values`, `limits`,
`manifests`, `namespaces`, `nodes`, `other_schedulers`, `owners`, `pools`, `prices`, `question_list`,
`question_parameters`, `question_types`, `questions`, `readiness`, `recommendations`, `rendering`, `tables`.
"""
