"""TLS handshakes in memory."""

import ssl


def shake_hands(client, server, name="127.0.0.1"):
    """Both ends of a connection after the handshake. `name`: the server name sent (SNI). Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    done = set()
    while len(done) < 2:
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    return ends
