"""A cluster in memory and virtual time: decisions of the real scheduler, without an API server.

    world = World(configuration)              # a cluster state with profiles, on which the real `attempt` decides
    Simulation(world).outcome(pod)            # all at once: one unit to its end
    Timeline(world, begin).run(happenings, until)   # over a long time: pods, nodes and objects come and go
    Rehearsal(world, begin).run([TheWorldGoesOn()], until)    # the same from what the world has, and undone at its end

`world.py` has the state, which can undo every change. `simulation.py` and `timeline.py` run the service's own queue,
attempts and executor on ports in memory (`ports.py`). `models/` has what surrounds a scheduler: autoscalers, budgets,
interruptions. No second implementation of a decision is here. Extenders are not asked.

A World belongs to one thread at a time. Questions, histories and the shadow each have their own.

Other packages use `behaviour`, `claims`, `evictions`, `handle`, `happenings`, `lives`, `measures`, `meter`,
`metered_nodes`, `models`, `owners`, `quantiles`, `rehearsal`, `replicas`, `results`, `simulation`, `timeline`, `usual`,
`volumes`, `world`, `writes`.
"""
