"""Builders and fixtures for tests of Bayplan and of its users' plugins. Public."""
