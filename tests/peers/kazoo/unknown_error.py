"""kazoo 2.11.0: an error code that it does not know ends its connection thread."""
import socket, struct, threading
from kazoo.client import KazooClient

def serve(listener):
    peer, _ = listener.accept()
    def read():
        length, = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
        return peer.recv(length, socket.MSG_WAITALL)
    def write(body):
        peer.sendall(struct.pack(">i", len(body)) + body)
    read()
    write(struct.pack(">iiqi16s?", 0, 10000, 1, 16, bytes(16), False))
    while True:
        xid, = struct.unpack(">i", read()[:4])
        write(struct.pack(">iqi", xid, 1, -999 if xid > 0 else 0))

listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=[listener], daemon=True).start()
client = KazooClient("127.0.0.1:%d" % listener.getsockname()[1])
client.start()
client.get("/a")  # never returns, and no later call does
