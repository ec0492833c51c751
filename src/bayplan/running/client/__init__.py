"""A Kubernetes API client: transport, credentials, verbs and reflectors. `bayplan.client` has its public names."""
