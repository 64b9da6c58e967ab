"""kazoo under the conformance suite: docs/conformance.md describes the lines.

    conform -- target/kazoo/bin/python tests/peers/conform/shim.py
"""

import sys
import threading

import kazoo
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError, CancelledError, ConnectionClosedError, ConnectionLoss, KazooException,
    NoNodeError, SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.recipe.lock import Lock

client = None
locks = {}
output = threading.Lock()


def say(line):
    with output:
        sys.stdout.write(line.rstrip() + "\n")
        sys.stdout.flush()


def error(reason):
    known = {
        ConnectionLoss: -4, ConnectionClosedError: -4, SessionExpiredError: -112,
        AuthFailedError: -115, CancelledError: -4,
    }
    code = getattr(reason, "code", None) or known.get(type(reason))
    return "error %s" % (code if code else "other %s" % repr(reason))


def on_state(state):
    if state == KazooState.CONNECTED:
        read_only = client.client_state == KeeperState.CONNECTED_RO
        say("state read-only" if read_only else "state connected")
    elif state == KazooState.SUSPENDED:
        say("state suspended")
    elif client.client_state == KeeperState.AUTH_FAILED:
        say("state auth-failed")
    else:
        say("state closed" if client._stopped.is_set() else "state expired")


EVENTS = {"CREATED": "created", "DELETED": "deleted", "CHANGED": "changed", "CHILD": "children"}


def watcher():
    # kazoo keeps a set of functions: each watch is one of its own.
    def on_event(event):
        if event.type in EVENTS:
            say("event %s %s" % (EVENTS[event.type], event.path))
    return on_event


def data(value):
    if value is None:
        return "null"
    return "bytes:%d" % len(value) if len(value) > 100 else '"%s"' % value.decode()


def names(value):
    return "names:%d" % len(value) if len(value) > 10 else " ".join(value)


def stat(value):
    return "none" if value is None else " ".join(str(number) for number in value)


def answer(number, result, text):
    def done(result):
        try:
            say("%s ok %s" % (number, text(result.get())))
        except Exception as reason:  # The suite judges it.
            say("%s %s" % (number, error(reason)))
    result.rawlink(done)


def connect(servers, *options):
    global client
    timeout = [o.split("=")[1] for o in options if o.startswith("timeout=")]
    client = KazooClient(
        hosts=servers,
        timeout=int(timeout[0]) / 1000 if timeout else 30,
        read_only="read-only" in options,
        connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 0.5},
        command_retry={"max_tries": 0},
    )
    client.add_listener(on_state)
    client.start_async()


def multi(number, text):
    transaction = client.transaction()
    for operation in text.split(", "):
        name, path, *rest = operation.split(" ")
        if name == "create":
            transaction.create(path, rest[0].encode())
        elif name == "set":
            transaction.set_data(path, rest[0].encode(), int(rest[1]))
        elif name == "delete":
            transaction.delete(path, int(rest[0]))
        else:
            transaction.check(path, int(rest[0]))

    def said(results):
        # A failed transaction is a list of errors; those after the first say that they did not run.
        for index, result in enumerate(results):
            if isinstance(result, KazooException) and type(result).__name__ not in (
                    "RolledBackError", "RuntimeInconsistency"):
                say("%s error %s at %d" % (number, result.code, index))
                return
        say("%s ok %d" % (number, len(results)))

    def done(result):
        try:
            said(result.get())
        except Exception as reason:
            say("%s %s" % (number, error(reason)))
    transaction.commit_async().rawlink(done)


def acquire(number, path):
    def run():
        try:
            lock = locks[path] = Lock(client, path)
            lock.acquire()
            say("%s ok" % number)
        except Exception as reason:
            say("%s %s" % (number, error(reason)))
    threading.Thread(target=run, daemon=True).start()


def release(number, path):
    def run():
        try:
            locks.pop(path).release()
            say("%s ok" % number)
        except Exception as reason:
            say("%s %s" % (number, error(reason)))
    threading.Thread(target=run, daemon=True).start()


def run(number, command, *words):
    watch = watcher() if words[-1:] == ("watch",) else None
    path = words[0] if words else None
    if command == "connect":
        connect(*words)
        say("%s ok" % number)
    elif command == "close":
        client.stop()
        client.close()
        say("%s ok" % number)
    elif command == "get":
        answer(number, client.get_async(path, watch), lambda r: "%s %d" % (data(r[0]), r[1].version))
    elif command == "exists":
        answer(number, client.exists_async(path, watch), stat)
    elif command == "children":
        answer(number, client.get_children_async(path, watch), names)
    elif command == "create" and "container" in words:
        say("%s unsupported" % number)
    elif command == "create":
        answer(number, client.create_async(
            path, words[1].encode(), ephemeral="ephemeral" in words, sequence="sequential" in words,
        ), str)
    elif command == "set":
        answer(number, client.set_async(path, words[1].encode(), int(words[2])),
               lambda r: str(r.version))
    elif command == "delete":
        answer(number, client.delete_async(path, int(words[1])), lambda r: "")
    elif command == "sync":
        answer(number, client.sync_async(path), lambda r: "")
    elif command == "acl":
        answer(number, client.get_acls_async(path), lambda r: str(len(r[0])))
    elif command == "auth":
        answer(number, client.add_auth_async(words[0], words[1]), lambda r: "")
    elif command == "session":
        say("%s ok 0x%x" % (number, client.client_id[0]))
    elif command == "multi":
        multi(number, " ".join(words))
    elif command == "lock":
        acquire(number, path)
    elif command == "unlock":
        release(number, path)
    else:
        say("%s unsupported" % number)


say("client kazoo %s" % kazoo.__version__)
for line in sys.stdin:
    words = line.rstrip("\n").split(" ")
    try:
        run(*words)
    except Exception as reason:
        say("%s %s" % (words[0], error(reason)))
