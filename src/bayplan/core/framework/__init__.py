"""The scheduling framework: extension points, statuses, verdicts, events and hints, profiles, and the runner that calls
plugins.

It holds no scheduling policy. `interface.py` and `gangs.py` have a protocol for each extension point, `profile.py` the
points with their plugins, `runner.py` and `binding_runner.py` call them. What a plugin says about its own methods is a
promise (`promises.py`); what it can do besides is a capability (`capabilities.py`), so nothing asks which class a
plugin is of.

To add an extension point: its protocol, the point in `profile.py`, how it is run, its caller, `bayplan.plugin` and
docs/api.md. To extend the handle of plugins: `handle.py` and its two implementations, `bayplan.running.service.handle`
and `bayplan.answers.simulation.handle`.

Other packages use `arguments`, `assuming`, `binding_runner`, `calling`, `capabilities`, `changes`, `checks`,
`cycle_data`, `device_slices`, `events`, `extenders`, `feeds`, `functions`, `gangs`, `giving_way`, `handle`, `hints`,
`interface`, `lasting_taints`, `measurements`, `missing_volumes`, `near_names`, `normalization`, `own_volumes`,
`placements`, `pod_run`, `profile`, `promises`, `remedies`, `resizes`, `runner`, `shortages`, `status`,
`unknown_writes`, `verdicts`, `waiting_pods`, `what_if`.
"""
