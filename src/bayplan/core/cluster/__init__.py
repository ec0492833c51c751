"""The cluster state: a table of nodes with one row per node, the pods on them, what-ifs, nominations, and stores of
other objects. It contains no scheduling decisions and does no I/O.
"""
