import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Uses a recipe of Apache Curator once, step by step.
 *
 * <p>Arguments: servers, recipe, path. Prints a line after each step, and waits for a line before
 * the next one if the recipe does not wait by itself.
 */
public final class Meet {
    private static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] args) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(100, 5));
        client.start();
        String path = args[2];
        switch (args[1]) {
            case "latch":
                LeaderLatch latch = new LeaderLatch(client, path, "curator");
                latch.start();
                while (latch.getParticipants().size() < 2) {
                    Thread.sleep(10);
                }
                done("leader is " + latch.getLeader().getId());
                latch.await();
                done("leads");
                next();
                latch.close();
                done("resigned");
                break;
            case "selector":
                LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework ignored) throws Exception {
                        done("leads");
                        next();
                    }
                });
                selector.start();
                while (!selector.hasLeadership()) {
                    Thread.sleep(10);
                }
                while (selector.hasLeadership()) {
                    Thread.sleep(10);
                }
                done("resigned");
                selector.close();
                break;
            case "barrier":
                DistributedBarrier barrier = new DistributedBarrier(client, path);
                barrier.setBarrier();
                done("closed");
                next();
                barrier.removeBarrier();
                done("opened");
                next();
                barrier.waitOnBarrier();
                done("passed");
                break;
            case "double-barrier":
                DistributedDoubleBarrier both = new DistributedDoubleBarrier(client, path, 2);
                done("comes");
                both.enter();
                done("in");
                both.leave();
                done("out");
                break;
            case "revoke":
                Revoker.attemptRevoke(client, path);
                done("asked");
                break;
            case "revocable":
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                Thread holder = Thread.currentThread();
                // Curator sets the watch when it acquires.
                mutex.makeRevocable(ignored -> holder.interrupt());
                mutex.acquire();
                done("holds");
                try {
                    Thread.sleep(60_000);
                } catch (InterruptedException asked) {
                    mutex.release();
                    done("released");
                }
                break;
            case "count":
                SharedCount count = new SharedCount(client, path, 0);
                count.start();
                done("count is " + count.getCount());
                count.close();
                break;
            default:
                throw new IllegalArgumentException(args[1]);
        }
        client.close();
    }

    private static void done(String step) {
        System.out.println(step);
    }

    private static void next() throws Exception {
        INPUT.readLine();
    }
}
