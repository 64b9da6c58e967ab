import java.lang.reflect.Method;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Takes turns with a lock of Apache Curator, or with the one that comes with ZooKeeper.
 *
 * <p>Arguments: servers, recipe, path, rounds, marker, and for a semaphore the number of permits.
 * Prints {@code ready}, waits for a line, and
 * then prints a line for each turn: {@code exclusive} or {@code shared}, and three transactions of
 * the ensemble: the one that created the lock node, one at the beginning of the turn, and one at
 * its end. The last two write to the marker.
 */
public final class Contend {
    private static CuratorFramework client;
    private static String marker;

    public static void main(String[] args) throws Exception {
        String recipe = args[1];
        String path = args[2];
        int rounds = Integer.parseInt(args[3]);
        marker = args[4];
        client = CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(100, 5));
        client.start();
        if (client.checkExists().forPath(marker) == null) {
            client.create().creatingParentsIfNeeded().forPath(marker);
        }
        System.out.println("ready");
        System.in.read();
        switch (recipe) {
            case "mutex":
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                for (int round = 0; round < rounds; round++) {
                    turn("exclusive", mutex);
                }
                break;
            case "read-write":
                InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
                for (int round = 0; round < rounds; round++) {
                    if (round % 3 == 0) {
                        turn("exclusive", lock.writeLock());
                    } else {
                        turn("shared", lock.readLock());
                    }
                }
                break;
            case "semaphore":
                SharedCount permits =
                        new SharedCount(client, path + "/max", Integer.parseInt(args[5]));
                permits.start();
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, permits);
                for (int round = 0; round < rounds; round++) {
                    Lease lease = semaphore.acquire();
                    say("shared", path + "/leases/" + lease.getNodeName());
                    semaphore.returnLease(lease);
                }
                permits.close();
                break;
            case "write-lock":
                ZooKeeper zooKeeper = client.getZookeeperClient().getZooKeeper();
                WriteLock writeLock = new WriteLock(zooKeeper, path, ZooDefs.Ids.OPEN_ACL_UNSAFE);
                for (int round = 0; round < rounds; round++) {
                    CountDownLatch acquired = new CountDownLatch(1);
                    writeLock.setLockListener(new LockListener() {
                        @Override
                        public void lockAcquired() {
                            acquired.countDown();
                        }

                        @Override
                        public void lockReleased() {}
                    });
                    // It waits in vain if the one before it went between its list and its watch;
                    // so it is asked again.
                    do {
                        writeLock.lock();
                    } while (!acquired.await(100, TimeUnit.MILLISECONDS));
                    say("exclusive", writeLock.getId());
                    writeLock.unlock();
                }
                break;
            default:
                throw new IllegalArgumentException(recipe);
        }
        client.close();
    }

    private static void turn(String kind, InterProcessMutex lock) throws Exception {
        lock.acquire();
        say(kind, pathOf(lock));
        lock.release();
    }

    /** The part that the lock protects. */
    private static void say(String kind, String node) throws Exception {
        long enter = stamp();
        long place = client.checkExists().forPath(node).getCzxid();
        long leave = stamp();
        System.out.println(kind + " " + place + " " + enter + " " + leave);
    }

    /** A transaction of now. */
    private static long stamp() throws Exception {
        return client.setData().forPath(marker, new byte[0]).getMzxid();
    }

    /** The path of the lock node, which Curator keeps to itself. */
    private static String pathOf(InterProcessMutex lock) throws Exception {
        Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        path.setAccessible(true);
        return (String) path.invoke(lock);
    }
}
