/* ZooKeeper and its locks for C. Generated from src/: `cargo test` says how.
 *
 * Functions that return `int` return ZK_OK or an error: below 0 a code of the server, above 0 one
 * of `enum zk_error`; zk_last_error() says it in words. Strings are UTF-8 and end with NUL. Handles
 * may be used in any thread, until they are closed, stopped or released, whose callbacks have ended
 * then. Pointers are valid, for as many bytes as a call says. No callback closes anything.
 */

#ifndef ZK_H
#define ZK_H

#include <stddef.h>
#include <stdint.h>

// The node is deleted with the session.
#define ZK_EPHEMERAL 1

// The servers add a number to the name.
#define ZK_SEQUENTIAL 2

// Codes of errors that no server has. Servers' codes are below 0, such as -101 for a node that does
// not exist, -103 for another version, -110 for a node that exists.
typedef enum {
  // Done.
  ZK_OK = 0,
  // An argument is invalid, or the call is not allowed here. Nothing was sent.
  ZK_ARGUMENT = 1,
  // No server of a quorum was reached. Nothing was applied.
  ZK_NOT_CONNECTED = 2,
  // No answer has come: the request may have been applied, or the lock may still be held.
  ZK_UNKNOWN = 3,
  // The session has ended: its locks are lost, and this client is of no more use.
  ZK_SESSION_ENDED = 4,
  // The time limit has passed, and another contender holds the lock.
  ZK_TIMED_OUT = 5,
  // The lock was lost before it was released.
  ZK_LOST = 6,
  // Another reason, in zk_last_error().
  ZK_FAILED = 7,
} zk_error;

// A client with one session.
typedef struct ZkClient ZkClient;

// A lock that is held, or was until it was lost.
typedef struct ZkLock ZkLock;

// A watch whose events are reported to a callback.
typedef struct ZkWatch ZkWatch;

// How to connect. All zero are the defaults, as is NULL instead of it.
typedef struct {
  // 10 seconds by default. The servers have limits.
  uint32_t session_timeout_ms;
  // How long to look for a server: 10 seconds by default.
  uint32_t connect_timeout_ms;
  // How long each request may take: by default until the session ends.
  uint32_t request_timeout_ms;
  // Such as "digest", with `auth` then "user:password".
  const char *auth_scheme;
  const char *auth;
  // A file with certificates (PEM) by which to trust servers, for TLS. Needs the feature `tls`.
  const char *ca_file;
  // Files with the client's certificate and key (PEM), if the servers ask for it.
  const char *certificate_file;
  const char *key_file;
} ZkOptions;

// Called for the name of each child.
typedef void (*ZkOnChild)(void *context, const char *name);

// Called for each change: with the type of the event, and the path of the node that changed. The
// type is 1 for created, 2 for deleted, 3 for data changed, 4 for children changed. It is 0, with the
// watched path, when events may have been missed, and -1 at last, when the session has ended.
typedef void (*ZkOnEvent)(void *context, int event, const char *path);

// Called once if the lock is lost, in another thread: others may hold it from now on.
typedef void (*ZkOnLost)(void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the text of the last error of this thread. It is valid until its next error.
const char *zk_last_error(void);

// Connects to one of `servers`, such as "zk1:2181,zk2:2181/chroot". Close the client at last.
int zk_connect(const char *servers, const ZkOptions *options, ZkClient **client);

// Ends the session, which releases its locks and deletes its ephemeral nodes, and frees the client.
// Stop its watches and release its locks before, or they report their end. NULL is nothing.
int zk_close(ZkClient *client);

// Returns 1 while the client is connected to a quorum, 0 while it looks for a server, -1 at the end
// of the session.
int zk_is_connected(const ZkClient *client);

// Reads the data of a node into `buffer`, as far as there is `room`. `length` is that of the data,
// and `version` of the node; both may be NULL.
int zk_get(const ZkClient *client,
           const char *path,
           uint8_t *buffer,
           size_t room,
           size_t *length,
           int32_t *version);

// Writes the data of a node, if it has `version`; -1 is any.
int zk_set(const ZkClient *client,
           const char *path,
           const uint8_t *data,
           size_t length,
           int32_t version);

// Creates a node. `flags` are 0, ZK_EPHEMERAL, ZK_SEQUENTIAL or both. Its path is written to
// `created`, with NUL at its end, if that is not NULL: it is longer than `path` by 10 at most.
int zk_create(const ZkClient *client,
              const char *path,
              const uint8_t *data,
              size_t length,
              int flags,
              char *created,
              size_t room);

// Deletes a node, if it has `version`; -1 is any.
int zk_delete(const ZkClient *client, const char *path, int32_t version);

// Sets `version` to that of the node, or to -1 if it does not exist.
int zk_exists(const ZkClient *client, const char *path, int32_t *version);

// Calls `on_child` for each child, in this thread, before it returns.
int zk_children(const ZkClient *client, const char *path, ZkOnChild on_child, void *context);

// Reports each change of a node and of its list of children, or with `recursive` of all nodes below
// it, in a thread of its own. Needs servers since 3.6.
int zk_watch(const ZkClient *client,
             const char *path,
             int recursive,
             ZkOnEvent on_event,
             void *context,
             ZkWatch **watch);

// Ends a watch, and frees it. Its callback is not running any more, and is not called again. NULL is
// nothing.
int zk_unwatch(ZkWatch *watch);

// Acquires the lock at `path`, which Curator's InterProcessMutex shares. Waits for `timeout_ms`, or
// as long as it takes if that is negative; 0 asks once.
int zk_lock_acquire(const ZkClient *client,
                    const char *path,
                    int64_t timeout_ms,
                    ZkOnLost on_lost,
                    void *context,
                    ZkLock **lock);

// Returns the fencing token: greater than that of each earlier holder. A resource that refuses
// smaller ones than it has seen is safe from a holder that comes too late.
int64_t zk_lock_token(const ZkLock *lock);

// Returns 1 while the lock is held, 0 while there is no connection to confirm it, -1 once it is lost.
int zk_lock_is_held(const ZkLock *lock);

// Releases the lock, and frees it, whatever it returns. Its callback is not running any more, and is
// not called again. NULL is nothing.
int zk_lock_release(ZkLock *lock);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ZK_H */
