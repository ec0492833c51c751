"""Custom resources: CustomResourceDefinitions, and the resources that they define.

`definitions` handles the lifecycle of definitions, and `resource` builds the resources that they define from the other
modules. Mirrors apiextensions-apiserver.

Other packages use `definitions`, `validation`.
"""
