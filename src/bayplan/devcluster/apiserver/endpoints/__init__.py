"""Endpoints: from a parsed request to its response, for verbs, subresources, reviews, discovery and schemas."""
