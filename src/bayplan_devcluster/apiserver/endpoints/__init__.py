"""Endpoints: verbs, subresources, reviews, discovery and schemas, from a parsed request to its response.

Other packages use `backend`, `decoding`, `non_resource_handler`, `rendering`, `request`, `resource_handler`.
"""
