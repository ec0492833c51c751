"""The questions as values: of one struct each, its JSON schema, its tool, its command and its Python call are made.

    AskDrain(nodes=["node-3"], force=True).ask(insight)         # what `bayplan drain node-3 --force` shows

A field is a parameter: its `Annotated` has its limits and its description (`Meta`), and how the command spells it
(`Option`). `ask` returns the answer; those that are public calls, too, ask the method of Insight.

To add a question: a file here with its struct, and its line in `question_list.py`, of which the faces make the rest.
Its answer is a dataclass that extends `Answer`, in that file or in one of `questions/`; `ask` resets the world first.

Imports no slow modules (see `question_parameters.py`): what an answer is made with is imported once it is asked.

Other packages use `capacity`, `upgrade_preview`, `what_if`, `when`.
"""
