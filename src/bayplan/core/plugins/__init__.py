"""The in-tree plugins, one a file, and `registry.py`, the explicit ordered list. Plugins never import each other.

A plugin handles all nodes at once, as arrays; none loops over nodes. It reads nodes through columns of
`bayplan.core.cluster` and declares what it reads of a pod (`sign`), so that pods share results, and which events may
help a rejected pod (`events`). An `explaining.py` has what a plugin tells of its rejections, and decides nothing. What
differs between versions of Kubernetes is asked of `gates` (`bayplan.core.versions`).

Other packages use `arguments`, `default_preemption`, `node_resources`, `registry`.
"""
