"""The cluster as columns: a table with one row per node, the pods on each row, what-ifs, nominations and other objects.

    state.table.requested            # one array per property, with one value per row; see node_table.py for units
    with state.what_if() as trial:   # changes that are undone at the end
        trial.place(pod, "node-3")

It has no verdicts and does no I/O. Rows are reused, and arrays double in size when they are full. Each row has a
version, so that a result for all rows is updated by its changed rows alone (`row_changes.py`). Names that tenants
choose take memory only while a node or a pod has them. Plugins get `Nodes` (`nodes.py`): a selection of rows, with a
what-if or not, so a plugin is written once, for real and for hypothetical states.

A `ClusterState` belongs to one scheduler and one thread. The intake changes it, and the executor. Start at `state.py`.

Other packages use `affinity_terms`, `columns`, `csi_nodes`, `disruption_budgets`, `domains`, `group_trees`,
`host_ports`, `node_columns`, `node_selection`, `node_table`, `nodes`, `nominations`, `objects`, `pod_changes`,
`pod_decoder`, `pod_groups`, `pod_info`, `pod_selectors`, `resizes`, `row_changes`, `selector_index`, `slots`, `state`,
`tally`, `volume_access`.
"""
