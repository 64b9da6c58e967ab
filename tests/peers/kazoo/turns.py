"""Measures how the threads of one process take turns with a lock of kazoo.

Arguments: servers, path, threads, milliseconds to hold the lock, seconds. Prints the turns, the
longest wait in milliseconds, and the processor time of a turn in microseconds.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient


def main(servers, path, *numbers):
    threads, work, seconds = map(int, numbers)
    client = KazooClient(hosts=servers)
    client.start()
    mutex = threading.Lock()
    turns, longest, since = 0, 0.0, [None] * threads
    processor = time.process_time()

    def take_turns(lock, number):
        nonlocal turns, longest
        while True:
            begun = since[number] = time.perf_counter()
            with lock:
                with mutex:
                    since[number] = None
                    longest = max(longest, time.perf_counter() - begun)
                    turns += 1
                if work:
                    time.sleep(work / 1000)

    for number in range(threads):
        args = (client.Lock(path), number)
        threading.Thread(target=take_turns, args=args, daemon=True).start()
    time.sleep(seconds)
    with mutex:
        waits = [time.perf_counter() - begun for begun in since if begun]
        processor = (time.process_time() - processor) * 1e6 / max(turns, 1)
        print(turns, max([longest, *waits]) * 1e3, processor, flush=True)
    os._exit(0)


main(*sys.argv[1:])
