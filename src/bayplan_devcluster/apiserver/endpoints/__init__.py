"""Endpoints: verbs, subresources, reviews, discovery and schemas, from a parsed request to its response."""
