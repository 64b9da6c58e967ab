"""Runs kazoo's own tests on servers that run already, such as those of `zk-test-server`.

    cargo run -p zk-test-server     # prints the addresses, and serves until it is interrupted
    pip download --no-deps --no-binary :all: kazoo==2.11.0 && tar xzf kazoo-2.11.0.tar.gz
    pip install pytest pyOpenSSL pyjks objgraph && cp conftest.py kazoo-2.11.0
    cd kazoo-2.11.0 && ZOOKEEPER_VERSION=3.8.0 ZOOKEEPER_SERVERS=... python -m pytest kazoo/tests

Tests that stop servers, need TLS or reconfigure the ensemble fail.
"""

import os

import kazoo.testing.harness as harness


class Server:
    running = True

    def __init__(self, address):
        self.address = self.secure_address = address
        self.client_port = int(address.rsplit(":", 1)[1])

    def stop(self):
        raise NotImplementedError

    run = stop


class Cluster(list):
    def start(self):
        pass

    stop = terminate = reset = start

    def get_logs(self):
        return []


CLUSTER = Cluster(Server(address) for address in os.environ["ZOOKEEPER_SERVERS"].split(","))
harness.get_global_cluster = lambda: CLUSTER
