"""The commands that answer questions about a cluster, which they only read.

That of a question is made of its struct (`question_command.py`), unless it does more than to ask one.

Other packages use `answering`, `cluster_options`, `files`, `follow_options`, `given_manifests`, `given_scheduler`,
`messages`, `moments`, `progress`, `question_command`, `question_options`.
"""
