"""Holds a lock of kazoo again and again, while servers fail.

Arguments: servers, path, session timeout in milliseconds. Prints a line whenever it holds the lock:
the path of the lock node, and the transaction that created it. It then holds the lock until it reads
a line, and ends when that is `end`.
"""

import logging
import sys
import time

from kazoo.client import KazooClient


def take_turns(client, path):
    """Returns when it has been told to end."""
    client.start()
    while True:
        lock = client.Lock(path)
        lock.acquire(timeout=10)
        node = f"{path}/{lock.node}"
        print(node, client.exists(node).czxid, flush=True)
        goes_on = sys.stdin.readline() != "end\n"
        lock.release()
        if not goes_on:
            return


def main(servers, path, timeout):
    while True:
        client = KazooClient(hosts=servers, timeout=int(timeout) / 1000)
        try:
            return take_turns(client, path)
        except Exception:
            # No server, or the lock is lost. A node that kazoo has left ends with this session.
            time.sleep(0.1)
        finally:
            client.stop()
            client.close()


logging.disable()
main(*sys.argv[1:])
