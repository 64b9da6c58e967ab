import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Measures locks of Apache Curator.
 *
 * <p>Arguments: servers, path, sessions, locks, acquisitions before measuring, acquisitions to
 * measure, milliseconds to hold a lock. There are as many contenders as there are sessions or
 * locks, whichever are more. Prints {@code begin} and {@code end} around what is measured, and then
 * {@code figures}: the time from a release to the next acquisition of the same lock, median and
 * 99th percentile in microseconds; acquisitions per second; microseconds of processor time per
 * acquisition.
 */
public final class Measure {
    private final int warmUp;
    private final int wanted;
    private final long hold;
    private final long[] releasedAt;
    private final List<Long> latencies = new ArrayList<>();
    private int acquisitions;
    private long beganAt;
    private long processorBefore;
    private String figures;

    private Measure(int locks, int warmUp, int wanted, long hold) {
        this.releasedAt = new long[locks];
        this.warmUp = warmUp;
        this.wanted = wanted;
        this.hold = hold;
    }

    public static void main(String[] args) throws Exception {
        int sessions = Integer.parseInt(args[2]);
        int locks = Integer.parseInt(args[3]);
        int warmUp = Integer.parseInt(args[4]);
        int wanted = Integer.parseInt(args[5]);
        Measure measure = new Measure(locks, warmUp, wanted, Long.parseLong(args[6]));
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < sessions; i++) {
            CuratorFramework client =
                    CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(100, 5));
            client.start();
            client.blockUntilConnected();
            clients.add(client);
        }
        List<Thread> contenders = new ArrayList<>();
        for (int i = 0; i < Math.max(sessions, locks); i++) {
            int lock = i % locks;
            CuratorFramework client = clients.get(i % sessions);
            InterProcessMutex mutex = new InterProcessMutex(client, args[1] + "-" + lock);
            Thread contender = new Thread(() -> measure.contend(mutex, lock));
            contender.start();
            contenders.add(contender);
        }
        for (Thread contender : contenders) {
            contender.join();
        }
        clients.forEach(CuratorFramework::close);
        System.out.println(measure.figures);
    }

    private void contend(InterProcessMutex mutex, int lock) {
        try {
            boolean goesOn = true;
            while (goesOn) {
                mutex.acquire();
                goesOn = acquired(lock);
                if (hold > 0) {
                    Thread.sleep(hold);
                }
                releasedAt[lock] = System.nanoTime();
                mutex.release();
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private synchronized boolean acquired(int lock) {
        long now = System.nanoTime();
        acquisitions++;
        if (acquisitions > warmUp && latencies.size() < wanted) {
            latencies.add(now - releasedAt[lock]);
        }
        if (acquisitions == warmUp) {
            System.out.println("begin");
            beganAt = now;
            processorBefore = processorTime();
        } else if (acquisitions == warmUp + wanted) {
            System.out.println("end");
            long processor = processorTime() - processorBefore;
            latencies.sort(null);
            figures = String.format(
                    "figures %f %f %f %f",
                    latencies.get(wanted / 2) / 1e3,
                    latencies.get(wanted * 99 / 100) / 1e3,
                    wanted / ((now - beganAt) / 1e9),
                    processor / 1e3 / wanted);
        }
        return acquisitions < warmUp + wanted;
    }

    private static long processorTime() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }
}
