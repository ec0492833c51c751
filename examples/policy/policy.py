from bayplan import filter_plugin, score_plugin


@filter_plugin
def tier(pod, node):
    """Keep ordinary pods off the control plane."""
    if node.labels.get("tier") == "control":
        return "node is reserved for the control plane"  # a reason rejects the node


@score_plugin
def cheap(pod, node):
    return max(0, 100 - int(node.labels.get("example.com/price", 100)))
