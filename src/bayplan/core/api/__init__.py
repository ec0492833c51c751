"""Kubernetes objects as typed values, and how to interpret them: quantities, selectors, tolerations, resource requests
and the table of kinds.

`kinds.py` has a line for each kind. Types are lightkube's models, decoded by msgspec; a field that they lack is a
subclass (as in `node_allocatable.py`) and a line in `field_types.py`. Kinds that servers have in several versions are
in `older_versions.py`. The script api_tables.py in tools updates the types to another release of Kubernetes; those that
are newer or gone are in `api_types_1.37.json` and `scheduling_v1alpha2.py`. Amounts are integers: millicores of cpu,
else base units. This package knows nothing about scheduling and imports nothing of Bayplan but
`bayplan.foundations.lazy`.

Other packages use `coscheduling`, `csi_translation`, `custom_objects`, `defaults`, `durations`, `field_errors`,
`go_times`, `kinds`, `kueue`, `labels`, `models`, `names`, `node_allocatable`, `objects`, `older_versions`, `patch`,
`patterns`, `pod_conditions`, `pod_groups`, `provisioning`, `quantity`, `requests`, `resource_lists`, `selectors`,
`served`, `sharing`, `status`, `suggestions`, `times`, `tolerations`, `type_table`, `volumes`, `well_known_labels`.
"""

from bayplan.foundations.lazy import import_lazily

import_lazily("lightkube")  # it imports its clients with an HTTP library, but only its models are needed
