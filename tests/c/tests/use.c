/* Uses every function, also in wrong ways: use HOST:PORT. Prints what the test waits for. */

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "zk.h"

#undef NDEBUG
#define OK(call) check(call, ZK_OK, #call)
#define FAILS(code, call) check(call, code, #call)

static void check(int code, int expected, const char *call) {
  if (code != expected) {
    fprintf(stderr, "%s: %d in place of %d: %s\n", call, code, expected, zk_last_error());
    fflush(NULL);
    __builtin_trap();
  }
}

struct Seen {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int count;
  int last;
  ZkWatch *watch;
  ZkLock *lock;
};

static void seen(struct Seen *seen, int what) {
  pthread_mutex_lock(&seen->mutex);
  seen->count++;
  seen->last = what;
  pthread_cond_broadcast(&seen->changed);
  pthread_mutex_unlock(&seen->mutex);
}

static void wait_for(struct Seen *seen, int count) {
  pthread_mutex_lock(&seen->mutex);
  while (seen->count < count) {
    pthread_cond_wait(&seen->changed, &seen->mutex);
  }
  pthread_mutex_unlock(&seen->mutex);
}

static void on_event(void *context, int event, const char *path) {
  struct Seen *watched = context;
  assert(strncmp(path, "/c", 2) == 0);
  FAILS(ZK_ARGUMENT, zk_unwatch(watched->watch));
  seen(watched, event);
}

static void on_lost(void *context) {
  struct Seen *held = context;
  FAILS(ZK_ARGUMENT, zk_lock_release(held->lock));
  seen(held, -1);
}

static void on_child(void *context, const char *name) {
  strcat(context, name);
  strcat(context, " ");
}

int main(int count, char **arguments) {
  ZkOptions options = {.session_timeout_ms = 10000, .auth_scheme = "digest", .auth = "me:secret"};
  struct Seen watched = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, NULL, NULL};
  struct Seen held = watched, other = watched;
  ZkClient *client = NULL;
  ZkLock *lock = NULL, *second = NULL;
  char created[64], names[256] = "";
  unsigned char data[4];
  size_t length = 0;
  int version = 0;
  assert(count == 2);

  FAILS(ZK_ARGUMENT, zk_connect(NULL, NULL, &client));
  FAILS(ZK_ARGUMENT, zk_connect("a:b:c", NULL, &client));
  assert(strlen(zk_last_error()) > 0);
  options.connect_timeout_ms = 1;
  FAILS(ZK_NOT_CONNECTED, zk_connect("127.0.0.1:1", &options, &client));
  options.connect_timeout_ms = 0;
  OK(zk_connect(arguments[1], &options, &client));
  assert(zk_is_connected(client) == 1);

  OK(zk_create(client, "/c", (const unsigned char *)"hello", 5, 0, NULL, 0));
  FAILS(-110, zk_create(client, "/c", NULL, 0, 0, NULL, 0));
  FAILS(ZK_ARGUMENT, zk_create(client, "/c", NULL, 0, 9, NULL, 0));
  FAILS(ZK_ARGUMENT, zk_create(client, "/c/a", NULL, 0, ZK_SEQUENTIAL, created, 3));
  FAILS(ZK_ARGUMENT, zk_create(client, "/c/a", NULL, 1, 0, NULL, 0));
  FAILS(ZK_ARGUMENT, zk_create(client, "c", NULL, 0, 0, NULL, 0));
  FAILS(ZK_ARGUMENT, zk_create(client, "/\xff", NULL, 0, 0, NULL, 0));
  OK(zk_watch(client, "/c", 1, on_event, &watched, &watched.watch));
  OK(zk_create(client, "/c/a-", NULL, 0, ZK_EPHEMERAL | ZK_SEQUENTIAL, created, sizeof created));
  assert(strcmp(created, "/c/a-0000000000") == 0);
  wait_for(&watched, 1);
  assert(watched.last == 1);
  OK(zk_get(client, "/c", data, sizeof data, &length, &version));
  assert(length == 5 && version == 0 && memcmp(data, "hell", 4) == 0);
  OK(zk_get(client, "/c", NULL, 0, &length, NULL));
  OK(zk_set(client, "/c", (const unsigned char *)"x", 1, 0));
  FAILS(-103, zk_set(client, "/c", NULL, 0, 0));
  OK(zk_exists(client, "/c", &version));
  assert(version == 1);
  OK(zk_exists(client, "/none", &version));
  assert(version == -1);
  FAILS(-101, zk_get(client, "/none", data, sizeof data, NULL, NULL));
  OK(zk_children(client, "/c", on_child, names));
  assert(strcmp(names, "a-0000000000 ") == 0);
  FAILS(ZK_ARGUMENT, zk_children(client, "/c", NULL, names));
  FAILS(-111, zk_delete(client, "/c", -1));
  OK(zk_delete(client, created, -1));
  wait_for(&watched, 3);
  assert(watched.last == 2);
  OK(zk_unwatch(watched.watch));

  OK(zk_lock_acquire(client, "/c/lock", -1, on_lost, &held, &held.lock));
  lock = held.lock;
  assert(zk_lock_is_held(lock) == 1 && zk_lock_token(lock) > 0);
  FAILS(ZK_TIMED_OUT, zk_lock_acquire(client, "/c/lock", 0, NULL, NULL, &second));
  OK(zk_lock_acquire(client, "/c/other", 1000, on_lost, &other, &second));
  OK(zk_lock_release(second));
  puts("held");
  fflush(stdout);
  /* Somebody deletes its node. */
  wait_for(&held, 1);
  assert(zk_lock_is_held(lock) == -1);
  FAILS(ZK_LOST, zk_lock_release(lock));
  assert(other.count == 0 && held.count == 1);

  OK(zk_watch(client, "/c", 0, on_event, &watched, &watched.watch));
  OK(zk_lock_acquire(client, "/c/lock", -1, NULL, NULL, &lock));
  OK(zk_close(client));
  wait_for(&watched, 4);
  assert(watched.last == -1 && zk_lock_is_held(lock) == -1);
  zk_lock_release(lock);
  OK(zk_unwatch(watched.watch));
  OK(zk_unwatch(NULL));
  OK(zk_lock_release(NULL));
  OK(zk_close(NULL));
  FAILS(ZK_ARGUMENT, zk_get(NULL, "/c", data, sizeof data, NULL, NULL));
  assert(zk_is_connected(NULL) == -1 && zk_lock_is_held(NULL) == -1 && zk_lock_token(NULL) == -1);
  puts("done");
  return 0;
}
