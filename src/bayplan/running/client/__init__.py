"""A Kubernetes API client: transport, credentials, typed verbs and reflectors.

    async with HttpClient(load_kubeconfig()) as client:
        pod = await client.get(POD, "web-1", "shop")

`client.py` has the verbs, `http.py` the transport, `list_watch.py` what keeps a copy of a kind up to date. Of the
core, it imports only `bayplan.core.api` and `bayplan.core.versions`; it shares nothing with the embedded API server but
the types.
A watch that is silent for too long is replaced; a request without a sign of life fails, so that half-open connections
don't block. A client belongs to one event loop.

`bayplan.client` has its public names.

Other packages use `access`, `answers`, `backoff`, `client`, `connection`, `errors`, `events`, `http`, `kubeconfig`,
`leader_election`, `list_watch`, `pace`, `permissions`, `proxies`, `reflector`, `server_version`, `transport`.
"""
