"""The built-in kinds: the catalog of their facts and strategies, and the admission plugins.

Other packages use `admission`, `catalog`, `declared_features`, `limit_ranges`, `quotas`.
"""
