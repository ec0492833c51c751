"""Answers to questions about scheduling on any cluster, which is only read. `bayplan.insight` has its public names."""
