"""Selectors of devices in CEL, as Kubernetes 1.36 evaluates them, on cel-python's parser, evaluator and values.

An expression is parsed (parsing, literals), its types are checked (checking, with celtypes, declarations and macros),
its constants are evaluated (planning), and then it is asked about each device (device, evaluation, loops), where each
call is metered (calls, costs) and done by a function of the library. What it said is remembered (selectors).
"""
