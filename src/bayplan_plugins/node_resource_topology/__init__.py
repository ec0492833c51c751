"""NodeResourceTopologyMatch: keeps pods off nodes where the kubelet's Topology Manager would refuse them.

A NodeResourceTopology, a custom resource, says what each zone (NUMA node) of a node has left.

    topologies.py ... reads a NodeResourceTopology
    cache.py ........ what is known of each node: what pods took that the topology doesn't count yet
    columns.py ...... that as arrays: one value per zone and node for each resource
    demand.py ....... what a pod wants of a zone
    zones.py ........ which zones of each node fit (Filter)
    strategies.py ... how good the zones are (Score); least_numa.py for LeastNUMANodes
    one_node.py ..... both for one node
    evictions.py .... what evictions give back to zones (PreemptionMode)

Mirrors pkg/noderesourcetopology of scheduler-plugins. Other packages use `plugin`.
"""
