"""Recordings: everything that the decisions of a running scheduler rest on, in the order in which it was taken in."""
