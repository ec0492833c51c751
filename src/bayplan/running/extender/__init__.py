"""The HTTP extender protocol, both sides."""
