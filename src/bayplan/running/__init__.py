"""The scheduler on a cluster: the core's ports as an API server and real time.

`client` reads and writes the API, `recording` notes what a running scheduler did, `service` is the scheduler itself,
`provisioning` answers capacity checks, and `extender` speaks kube-scheduler's extender protocol, both sides. It imports
`bayplan.core` and `bayplan.foundations`, and knows nothing of the questions in `bayplan.answers`. Start at
`service/loop.py`: pop, attempt, carry out.

Other packages use `client`, `extender`, `provisioning`, `recording`, `service`.
"""
