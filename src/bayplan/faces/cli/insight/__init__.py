"""The commands that answer questions about a cluster, which they only read.

Other packages use `answering`, `cluster_options`, `files`, `fit`, `follow_options`, `messages`, `moments`, `progress`,
`question_options`.
"""
