"""The web page: a cluster as a bay plan, its queue, its pods and nodes, and what-ifs. It only reads the cluster."""
