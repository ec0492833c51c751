"""Storage: objects and their history, the facts and the strategy of each kind, and the steps of a write.

Other packages use `deletion`, `garbage_collector`, `object_schema`, `resource`, `rest_storage`, `selectable_fields`,
`served_resources`, `store`, `strategy`.
"""
