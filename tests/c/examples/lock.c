/* Holds a lock for a moment: lock HOST:PORT PATH */

#include <stdio.h>

#include "zk.h"

static void lost(void *context) {
  (void)context;
  fputs("the lock is lost: stop\n", stderr);
}

int main(int count, char **arguments) {
  ZkClient *client;
  ZkLock *lock;
  if (count != 3) {
    fputs("usage: lock HOST:PORT PATH\n", stderr);
    return 2;
  }
  if (zk_connect(arguments[1], NULL, &client) != ZK_OK) {
    fprintf(stderr, "lock: %s\n", zk_last_error());
    return 1;
  }
  int code = zk_lock_acquire(client, arguments[2], 5000, lost, NULL, &lock);
  if (code == ZK_OK) {
    printf("held, token %lld\n", (long long)zk_lock_token(lock));
    code = zk_lock_release(lock);
  }
  if (code != ZK_OK) {
    fprintf(stderr, "lock: %s\n", zk_last_error());
  }
  zk_close(client);
  return code != ZK_OK;
}
