"""Measures locks of kazoo.

Arguments: servers, path, sessions, locks, acquisitions before measuring, acquisitions to measure,
milliseconds to hold a lock. There are as many contenders as there are sessions or locks, whichever
are more. Prints `begin` and `end` around what is measured, and then `figures`: the time from a release to the next acquisition
of the same lock, median and 99th percentile in microseconds; acquisitions per second;
microseconds of processor time per acquisition.
"""

import sys
import threading
import time

from kazoo.client import KazooClient


class Measure:
    def __init__(self, locks, warm_up, wanted, hold):
        self.released_at = [0.0] * locks
        self.warm_up = warm_up
        self.wanted = wanted
        self.hold = hold
        self.latencies = []
        self.acquisitions = 0
        self.mutex = threading.Lock()

    def contend(self, lock, number):
        goes_on = True
        while goes_on:
            with lock:
                goes_on = self.acquired(number)
                if self.hold:
                    time.sleep(self.hold)
                self.released_at[number] = time.perf_counter()

    def acquired(self, number):
        now = time.perf_counter()
        with self.mutex:
            self.acquisitions += 1
            if self.warm_up < self.acquisitions <= self.warm_up + self.wanted:
                self.latencies.append(now - self.released_at[number])
            if self.acquisitions == self.warm_up:
                print("begin", flush=True)
                self.began = now, time.process_time()
            elif self.acquisitions == self.warm_up + self.wanted:
                print("end", flush=True)
                self.took = now - self.began[0], time.process_time() - self.began[1]
            return self.acquisitions < self.warm_up + self.wanted


def main(servers, path, *numbers):
    sessions, locks, warm_up, wanted, hold = map(int, numbers)
    measure = Measure(locks, warm_up, wanted, hold / 1000)
    clients = [KazooClient(hosts=servers) for _ in range(sessions)]
    for client in clients:
        client.start()
    contenders = []
    for i in range(max(sessions, locks)):
        lock = clients[i % sessions].Lock(f"{path}-{i % locks}")
        contenders.append(threading.Thread(target=measure.contend, args=(lock, i % locks)))
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join()
    for client in clients:
        client.stop()
    latencies = sorted(measure.latencies)
    elapsed, processor = measure.took
    print(
        "figures",
        latencies[wanted // 2] * 1e6,
        latencies[wanted * 99 // 100] * 1e6,
        wanted / elapsed,
        processor * 1e6 / wanted,
    )


main(*sys.argv[1:])
