"""aiozk under the conformance suite: docs/conformance.md describes the lines.

    python3 -m venv target/aiozk && target/aiozk/bin/pip install aiozk==0.32.0
    conform -- target/aiozk/bin/python tests/peers/conform/shim_aiozk.py
"""

import asyncio
import importlib.metadata
import sys

from aiozk import ZKClient, exc, protocol
from aiozk.protocol import WatchEvent
from aiozk.retry import RetryPolicy
from aiozk.states import SessionStateMachine

STATES = {
    "connected": "connected", "suspended": "suspended", "read_only": "read-only", "lost": "expired",
}
EVENTS = {
    "created": WatchEvent.CREATED, "deleted": WatchEvent.DELETED,
    "changed": WatchEvent.DATA_CHANGED, "children": WatchEvent.CHILDREN_CHANGED,
}
client = None
locks = {}


def say(line):
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def reporting(transition_to):
    def report(machine, state):
        transition_to(machine, state)
        say("state " + ("closed" if machine.session.closing else STATES[state]))

    return report


SessionStateMachine.transition_to = reporting(SessionStateMachine.transition_to)


def watch(path, *kinds):
    """One watch, which fires once, whatever the kind of its event."""
    callbacks = {}

    def fired(kind):
        for other, callback in callbacks.items():
            client.session.remove_watch_callback(EVENTS[other], path, callback)
        say(f"event {kind} {path}")

    for kind in kinds:
        callbacks[kind] = lambda _, kind=kind: fired(kind)
        client.session.add_watch_callback(EVENTS[kind], path, callbacks[kind])


def shown(data):
    if data is None:
        return "null"
    data = data.encode() if isinstance(data, str) else data
    return f"bytes:{len(data)}" if len(data) > 100 else '"' + data.decode("utf-8", "replace") + '"'


def connect(servers, *words):
    global client
    servers, _, chroot = servers.partition("/")
    options = dict(word.partition("=")[::2] for word in words)
    client = ZKClient(
        servers,
        chroot=chroot or None,
        session_timeout=int(options.get("timeout", 10000)) / 1000,
        allow_read_only="read-only" in options,
        retry_policy=RetryPolicy.once(),
    )
    asyncio.ensure_future(client.start())


async def multi(words):
    transaction = client.begin_transaction()
    parts = [part.split() for part in " ".join(words).split(", ")]
    for verb, path, *rest in parts:
        if verb == "create":
            transaction.create(path, rest[0])
        elif verb == "set":
            transaction.set_data(path, rest[0], int(rest[1]))
        elif verb == "delete":
            transaction.delete(path, int(rest[0]))
        else:
            transaction.check_version(path, int(rest[0]))
    if not await transaction.commit():
        raise exc.TransactionFailed
    return str(len(parts))


async def run(command, path=None, *rest):
    watches = "watch" in rest
    if command == "connect":
        return connect(path, *rest) or ""
    if command == "get":
        data, stat = await client.get(path, watch=watches)
        if watches:
            watch(path, "changed", "deleted")
        return f"{shown(data)} {stat.version}"
    if command == "exists":
        request = protocol.ExistsRequest(path=client.normalize_path(path), watch=watches)
        try:
            stat = (await client.send(request)).stat
        except exc.NoNode:
            stat = None
        if watches:
            watch(path, "created", "changed", "deleted")
        return "none" if stat is None else " ".join(str(getattr(stat, field)) for field, _ in stat.parts)
    if command == "children":
        names = await client.get_children(path, watch=watches)
        if watches:
            watch(path, "children", "deleted")
        if names is None:
            return "null"
        return f"names:{len(names)}" if len(names) > 10 else " ".join(names)
    if command == "create":
        flags = {flag: flag in rest[1:] for flag in ("ephemeral", "sequential", "container")}
        return await client.create(path, rest[0], **flags)
    if command == "set":
        return str((await client.set(path, rest[0], int(rest[1]))).version)
    if command == "delete":
        version = int(rest[0])
        await client.send(protocol.DeleteRequest(path=client.normalize_path(path), version=version))
        return ""
    if command == "multi":
        return await multi([path, *rest])
    if command == "acl":
        return str(len(await client.get_acl(path)))
    if command == "sync":
        await client.send(protocol.SyncRequest(path=client.normalize_path(path)))
        return ""
    if command == "session":
        return hex(client.session.session_id)
    if command == "lock":
        locks[path] = client.recipes.Lock(path)
        return await locks[path].acquire() or ""
    if command == "unlock":
        return await locks.pop(path).release() or ""
    if command == "close":
        return await client.close() or ""
    return None


async def answer(number, *words):
    try:
        result = await run(*words)
        say(f"{number} unsupported" if result is None else f"{number} ok {result}")
    except exc.ResponseError as error:
        say(f"{number} error {error.error_code}")
    except exc.ConnectError:
        say(f"{number} error -4")
    except exc.SessionLost:
        say(f"{number} error -112")
    except Exception as error:
        text = f"{number} error other {type(error).__name__} {error}"
        say(text.replace("\n", " "))


async def main():
    say("client aiozk " + importlib.metadata.version("aiozk"))
    loop = asyncio.get_running_loop()
    answers = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answers.add(asyncio.ensure_future(answer(*line.split())))


asyncio.run(main())
