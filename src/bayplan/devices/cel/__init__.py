"""CEL device selectors as Kubernetes 1.36 evaluates them, based on cel-python's parser, evaluator and values.

An expression is parsed (`parsing`, `literals`) and type-checked (`checking`, with `celtypes`, `declarations` and
`macros`), and its constants are folded (`planning`). It is then evaluated for each device (`device`, `evaluation`,
`loops`): functions come from `library`, and their cost is limited (`calls`, `costs`). `selectors` caches the results.
"""
