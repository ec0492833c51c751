"""A Kubernetes cluster in one process, for laptops and tests.

    async with DevCluster(nodes=3) as cluster: ...

It consists of the embedded API server (`apiserver/`), and of controllers and simulated kubelets, which are ordinary API
clients and also work with a real kube-apiserver. All times come from one clock, which a test may advance. The API
server imports no client, so that both can't share a mistake; messages and validation are word for word
kube-apiserver's.

Other packages use `apiserver`, `cluster`, `controllers`, `in_memory`, `kubelet`, `manifests`.
"""
