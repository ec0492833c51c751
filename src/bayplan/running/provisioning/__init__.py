"""Capacity checks: ProvisioningRequests of queues such as Kueue, answered by the scheduler's own decisions.

A request becomes pending pods that only this process knows (`bayplan.core.expansion.provisioned_pods`). They wait in
the scheduler's queue, are attempted as one gang, and an event that helps requeues them: nothing decides a second time.
Placed, they count on their nodes as bound pods do; that is the held room. What the executor would write about them goes
to the request's conditions instead (`ports.py`, `plugin.py`).

`desk.py` is the main path: a request comes, is asked, held, and ends. `bookings.py` has one request's places, `room.py`
knows which events may help, `conditions.py` writes the answers. Everything here belongs to the scheduler's event loop.
The places are in the status of the request, so that a restart and another leader hold the same room.

Other packages use `checkpoints`, `desk`, `options`.
"""
