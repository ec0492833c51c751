"""Dynamic resource allocation: device classes, resource slices, claims and their allocations, and CEL selectors.

Shared by the plugins, the embedded API server, its controllers and its kubelets. Nothing here decides where a pod runs.

Other packages use `allocations`, `cel`, `claims`, `classes`, `device_taints`, `extended_claims`, `limits`, `requests`,
`slices`.
"""
