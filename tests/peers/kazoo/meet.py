"""Uses a recipe of kazoo once, step by step.

Arguments: servers, recipe, path. Prints a line after each step, and waits for a line before the next
one if the recipe does not wait by itself.
"""

import sys

from kazoo.client import KazooClient


def done(step):
    print(step, flush=True)


def main(servers, recipe, path):
    client = KazooClient(hosts=servers)
    client.start()
    if recipe == "election":

        def lead():
            done("leads")
            sys.stdin.readline()

        client.Election(path, "kazoo").run(lead)
        done("resigned")
    elif recipe == "barrier":
        barrier = client.Barrier(path)
        barrier.create()
        done("closed")
        sys.stdin.readline()
        barrier.remove()
        done("opened")
        sys.stdin.readline()
        barrier.wait()
        done("passed")
    else:
        raise ValueError(recipe)
    client.stop()


main(*sys.argv[1:])
