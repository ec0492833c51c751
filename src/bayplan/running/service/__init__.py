"""The running scheduler: one process, on asyncio. `loop.py` is the main path: pop, attempt, carry out.

`scheduler.py` assembles the parts, and starts and stops them in order. `Services` (`services.py`) are what a scheduler
on an API server works with; `bayplan.core.executor.runtime` is what its parts share. What comes from outside are small
values: `Settings`, `Peers`, and for the endpoints `Published` and `ReviewClients`. No constructor takes more than five
arguments; a test checks that.

Every task has a name and an owner: `supervisor.py` owns background work, `tasks.py` the tasks of pods, `background.py`
those of plugins. The cluster state and the queue belong to the scheduler's event loop. Other threads are the election's
(`leader_election.py`), the endpoints' (`serving/`), and that which detects a blocked loop (`watchdog.py`); they read
through `loop_reader.py`. Work that takes long lets other tasks run every 5 ms (`bayplan.foundations.turns`). If the
scheduling loop itself ends, /livez fails and the process exits with the reason.

Other packages use `event_recorder`, `evictions`, `failed_requests`, `handle`, `informers`, `leader_election`,
`messages`, `metrics`, `scheduler`, `services`, `serving`, `settings`, `waiting_pods`, `watchdog`.
"""
