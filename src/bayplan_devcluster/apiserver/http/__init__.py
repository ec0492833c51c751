"""HTTP: requests and responses as plain values, and the listener that reads and writes them on sockets.

Other packages use `address`, `listener`, `messages`, `negotiation`, `request_info`, `tls`.
"""
