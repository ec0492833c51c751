"""The questions as values: of one struct each, its JSON schema, its tool, its command and its Python call are made.

    AskDrain(nodes=["node-3"], force=True).ask(insight)         # what `bayplan drain node-3 --force` shows

A field is a parameter: its `Annotated` has its limits and its description (`Meta`), and how the command spells it
(`Option`). `ask` calls the method of Insight that answers the question. `QUESTIONS` of `question_types.py` lists them.

Imports no slow modules (see `question_parameters.py`): a question's answer is imported once it is asked.

Other packages use `balance`, `capacity`, `check`, `diff`, `doctor`, `drain`, `explain`, `fit`, `scale_up`, `shrink`,
`upgrade_preview`, `usage`, `what_if`, `when`, `why_not`.
"""
