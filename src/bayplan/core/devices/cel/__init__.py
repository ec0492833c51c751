"""CEL device selectors as Kubernetes 1.36 and 1.37 evaluate them.

An expression is parsed (`parsing`, `literals`) and type-checked (`checking`, with `celtypes`, `declarations` and
`macros`), its constants are folded (`planning`), and it is compiled (`compiling`). Most of it becomes functions whose
source is written (`writing`, `numbers`, `logic`, `selecting`, `calls`, `loops`), the rest closures; `memory` keeps some
values. They are evaluated for a device (`device`). Functions come from `library`, and their cost is limited (`costs`).
`selectors` caches the results, by what an expression reads of a device (`reading`).

Other packages use `derivations`, `device`, `selectors`, `values`.
"""
