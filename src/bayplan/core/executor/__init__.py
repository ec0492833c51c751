"""The executor: the only code that gives a plan effect. It acts through ports, which tell a real run from a simulation.

    intake -> cluster state, queue -> attempt -> Plan -> Executor.carry_out -> assume, reserve, bind, evict, requeue

Start reading at `executor.py`. `ports.py` lists what a run is made of; the service, a simulation, a replay and a
benchmark implement it (`bayplan.running.service.services`, `bayplan.answers.simulation.ports`,
`bayplan.answers.replay.ports`, `bayplan.benchmarking.core_scheduler`). Conformance only looks at decisions.

Each fact about a pod has one owner; other places refer to it:

    reported by the API server   ClusterState.objects[POD], changed by the intake only: the latest version
    pending, in flight           SchedulingQueue: where it waits, its attempts, which plugins rejected it
    assumed, bound               ClusterState, on a row of the node table: its node, and whether that is confirmed
    nominated                    ClusterState.nominations: the node that is kept for it

The watch event that confirms a binding changes only the cluster state. A binding cycle ends here: bound, or undone and
requeued.

Other packages use `attempts`, `binding`, `executor`, `extenders`, `giving_way`, `handlers`, `intake`, `ports`,
`preemption`, `runtime`, `silent_ports`.
"""
