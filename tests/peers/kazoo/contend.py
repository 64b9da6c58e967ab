"""Takes turns with a lock of kazoo.

Arguments: servers, recipe, path, rounds, marker. Prints `ready`, waits for a line, and then prints
a line for each turn: `exclusive` or `shared`, and three transactions of the ensemble: the one that
created the lock node, one at the beginning of the turn, and one at its end. The last two write to
the marker.
"""

import sys

from kazoo.client import KazooClient


def main(servers, recipe, path, rounds, marker):
    client = KazooClient(hosts=servers)
    client.start()
    client.ensure_path(marker)
    turns = {
        "mutex": [("exclusive", client.Lock(path))],
        "read-write": [
            ("exclusive", client.WriteLock(path)),
            ("shared", client.ReadLock(path)),
            ("shared", client.ReadLock(path)),
        ],
    }[recipe]

    def stamp():
        """A transaction of now."""
        return client.set(marker, b"").mzxid

    print("ready", flush=True)
    sys.stdin.readline()
    for round in range(int(rounds)):
        kind, lock = turns[round % len(turns)]
        with lock:
            enter = stamp()
            place = client.exists(f"{path}/{lock.node}").czxid
            leave = stamp()
            print(kind, place, enter, leave, flush=True)
    client.stop()


main(*sys.argv[1:])
