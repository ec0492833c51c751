"""Custom resources: CustomResourceDefinitions, and the resources that they define.

`definitions` is what happens to a definition, `resource` makes of one the resources that are served; the rest is what
those consist of. Mirrors apiextensions-apiserver.
"""
