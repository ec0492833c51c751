"""CEL device selectors as Kubernetes 1.36 evaluates them.

An expression is parsed (`parsing`, `literals`) and type-checked (`checking`, with `celtypes`, `declarations` and
`macros`), its constants are folded (`planning`), and it is compiled to closures (`compiling`, `selecting`, `loops`,
`calls`, `numbers`, `memory`), which are evaluated for a device (`device`). Functions come from `library`, and their
cost is limited (`costs`). `selectors` caches the results, by what an expression reads of a device (`reading`).
"""
