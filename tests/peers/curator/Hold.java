import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holds a lock of Apache Curator again and again, while servers fail.
 *
 * <p>Arguments: servers, path, session timeout in milliseconds. Prints a line whenever it holds the
 * lock: the path of the lock node, and the transaction that created it. It then holds the lock until
 * it reads a line, and ends when that is {@code end}.
 */
public final class Hold {
    public static void main(String[] args) throws Exception {
        int timeout = Integer.parseInt(args[2]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], timeout, timeout, new ExponentialBackoffRetry(100, 5));
        client.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        boolean goesOn = true;
        while (goesOn) {
            try {
                if (!mutex.acquire(10, TimeUnit.SECONDS)) {
                    continue;
                }
            } catch (Exception error) {
                // No server, or the session has expired. The next attempt may succeed.
                Thread.sleep(100);
                continue;
            }
            try {
                String node = pathOf(mutex);
                long created = client.checkExists().forPath(node).getCzxid();
                System.out.println(node + " " + created);
                goesOn = !"end".equals(input.readLine());
            } catch (Exception error) {
                // The node is gone, or no server says when it was created.
            }
            try {
                mutex.release();
            } catch (Exception error) {
                // Curator deletes the node in the background.
            }
        }
        client.close();
    }

    /** The path of the lock node, which Curator keeps to itself. */
    private static String pathOf(InterProcessMutex lock) throws Exception {
        Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        path.setAccessible(true);
        return (String) path.invoke(lock);
    }
}
