import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Measures how the threads of one process take turns with a lock of Apache Curator.
 *
 * <p>Arguments: servers, path, threads, milliseconds to hold the lock, seconds. Prints the turns, the
 * longest wait in milliseconds, and the processor time of a turn in microseconds.
 */
public final class Turns {
    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[2]);
        long work = Long.parseLong(args[3]);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        AtomicLong turns = new AtomicLong();
        AtomicLong longest = new AtomicLong();
        AtomicLongArray since = new AtomicLongArray(threads);
        long processorBefore = processorTime();
        for (int i = 0; i < threads; i++) {
            int number = i;
            InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        long begun = System.nanoTime();
                        since.set(number, begun);
                        mutex.acquire();
                        since.set(number, 0);
                        longest.accumulateAndGet(System.nanoTime() - begun, Math::max);
                        turns.incrementAndGet();
                        if (work > 0) {
                            Thread.sleep(work);
                        }
                        mutex.release();
                    }
                } catch (Exception error) {
                    // The process ends.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(Long.parseLong(args[4]) * 1000);
        long all = turns.get();
        long now = System.nanoTime();
        for (int i = 0; i < threads; i++) {
            long begun = since.get(i);
            if (begun != 0) {
                longest.accumulateAndGet(now - begun, Math::max);
            }
        }
        double processor = (processorTime() - processorBefore) / 1e3 / Math.max(all, 1);
        System.out.printf("%d %f %f%n", all, longest.get() / 1e6, processor);
        client.close();
        System.exit(0);
    }

    private static long processorTime() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }
}
