"""The decision core: which node a pod gets, as pure functions of the cluster, the pod, the time and the random draws.

A decision is a value, a plan; `executor` is what gives it effect, through ports. The core does no I/O and reads no
clock. It imports `bayplan.foundations` only. From the bottom up: `api` (objects), `versions` (what differs between
versions of Kubernetes), `devices` (dynamic resource allocation), `cluster` (columns), `framework` and `plugins`,
`queue`, `scheduling` (one attempt), `sharing` (results that pods share), `config` and `executor`. Start at
`scheduling/attempt.py`.

Other packages use `api`, `cluster`, `config`, `devices`, `executor`, `expansion`, `framework`, `plugins`, `queue`,
`scheduling`, `sharing`, `versions`.
"""
