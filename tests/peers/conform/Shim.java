import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Java's own client under the conformance suite: docs/conformance.md describes the lines. With the
 * jars of Debian:
 *
 * <pre>
 * jars=$(printf /usr/share/java/%s.jar: zookeeper zookeeper-jute zookeeper-recipes-lock slf4j-api slf4j-nop)
 * javac -cp $jars -d target/java tests/peers/conform/Shim.java
 * conform -- java -XX:TieredStopAtLevel=1 -cp $jars:target/java Shim
 * </pre>
 */
public class Shim {
    private static ZooKeeper client;
    private static final Map<String, WriteLock> locks = new HashMap<>();

    private static synchronized void say(String line) {
        System.out.println(line.stripTrailing());
        System.out.flush();
    }

    private static void answer(String number, int code, String text) {
        say(number + (code == 0 ? " ok " + text : " error " + code));
    }

    private static void onState(WatchedEvent event) {
        switch (event.getState()) {
            case SyncConnected: say("state connected"); break;
            case ConnectedReadOnly: say("state read-only"); break;
            case Disconnected: say("state suspended"); break;
            case Expired: say("state expired"); break;
            case AuthFailed: say("state auth-failed"); break;
            case Closed: say("state closed"); break;
            default: break;
        }
    }

    /** The client keeps a set of watchers: each watch is an object of its own. */
    private static Watcher watcher() {
        return new Watcher() {
            @Override
            public void process(WatchedEvent event) {
                String kind = null;
                switch (event.getType()) {
                    case NodeCreated: kind = "created"; break;
                    case NodeDeleted: kind = "deleted"; break;
                    case NodeDataChanged: kind = "changed"; break;
                    case NodeChildrenChanged: kind = "children"; break;
                    default: break;
                }
                if (kind != null) {
                    say("event " + kind + " " + event.getPath());
                }
            }
        };
    }

    private static String data(byte[] data) {
        if (data == null) {
            return "null";
        }
        String text = '"' + new String(data, StandardCharsets.UTF_8) + '"';
        return data.length > 100 ? "bytes:" + data.length : text;
    }

    private static String names(List<String> names) {
        if (names == null) {
            return "";
        }
        return names.size() > 10 ? "names:" + names.size() : String.join(" ", names);
    }

    /** The stat is missing if the client could not read the reply. */
    private static String version(Stat stat) {
        return stat == null ? "no stat" : "" + stat.getVersion();
    }

    private static String stat(Stat s) {
        return s.getCzxid() + " " + s.getMzxid() + " " + s.getCtime() + " " + s.getMtime() + " "
            + s.getVersion() + " " + s.getCversion() + " " + s.getAversion() + " "
            + s.getEphemeralOwner() + " " + s.getDataLength() + " " + s.getNumChildren() + " "
            + s.getPzxid();
    }

    private static void connect(String[] words) throws IOException {
        int timeout = 30000;
        boolean readOnly = false;
        for (String word : words) {
            if (word.startsWith("timeout=")) {
                timeout = Integer.parseInt(word.substring(8));
            }
            readOnly |= word.equals("read-only");
        }
        client = new ZooKeeper(words[2], timeout, Shim::onState, readOnly);
    }

    private static CreateMode mode(List<String> words) {
        boolean ephemeral = words.contains("ephemeral");
        if (words.contains("container")) {
            return CreateMode.CONTAINER;
        }
        if (words.contains("sequential")) {
            return ephemeral ? CreateMode.EPHEMERAL_SEQUENTIAL : CreateMode.PERSISTENT_SEQUENTIAL;
        }
        return ephemeral ? CreateMode.EPHEMERAL : CreateMode.PERSISTENT;
    }

    private static void multi(String number, String text) {
        List<Op> operations = new ArrayList<>();
        for (String operation : text.split(", ")) {
            String[] words = operation.split(" ");
            switch (words[0]) {
                case "create":
                    operations.add(Op.create(
                        words[1], words[2].getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
                    break;
                case "set":
                    operations.add(Op.setData(
                        words[1], words[2].getBytes(), Integer.parseInt(words[3])));
                    break;
                case "delete":
                    operations.add(Op.delete(words[1], Integer.parseInt(words[2])));
                    break;
                default:
                    operations.add(Op.check(words[1], Integer.parseInt(words[2])));
            }
        }
        client.multi(operations, (code, path, context, results) -> {
            for (int index = 0; results != null && index < results.size(); index++) {
                if (results.get(index) instanceof OpResult.ErrorResult) {
                    int error = ((OpResult.ErrorResult) results.get(index)).getErr();
                    if (error != 0 && error != Code.RUNTIMEINCONSISTENCY.intValue()) {
                        say(number + " error " + error + " at " + index);
                        return;
                    }
                }
            }
            answer(number, code, results == null ? "" : "" + results.size());
        }, null);
    }

    private static void lock(String number, String path) {
        Thread thread = new Thread(() -> {
            try {
                WriteLock lock = new WriteLock(client, path, Ids.OPEN_ACL_UNSAFE);
                lock.setLockListener(new LockListener() {
                    @Override
                    public void lockAcquired() {
                        say(number + " ok");
                    }

                    @Override
                    public void lockReleased() {
                    }
                });
                locks.put(path, lock);
                lock.lock();
            } catch (Exception error) {
                say(number + " error other " + error);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void unlock(String number, String path) {
        Thread thread = new Thread(() -> {
            try {
                locks.get(path).unlock();
                say(number + " ok");
            } catch (Exception error) {
                say(number + " error other " + error);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void run(String[] words) throws Exception {
        String number = words[0];
        String path = words.length > 2 ? words[2] : null;
        List<String> all = Arrays.asList(words);
        Watcher watcher = words[words.length - 1].equals("watch") ? watcher() : null;
        switch (words[1]) {
            case "connect":
                connect(words);
                say(number + " ok");
                break;
            case "close":
                client.close();
                say(number + " ok");
                break;
            case "get":
                client.getData(path, watcher, (code, p, c, data, stat) -> answer(
                    number, code, code == 0 ? data(data) + " " + version(stat) : ""), null);
                break;
            case "exists":
                client.exists(path, watcher, (code, p, c, stat) -> {
                    boolean none = code == Code.NONODE.intValue();
                    answer(number, none ? 0 : code, none ? "none" : code == 0 ? stat(stat) : "");
                }, null);
                break;
            case "children":
                client.getChildren(path, watcher, (int code, String p, Object c, List<String> names) ->
                    answer(number, code, code == 0 ? names(names) : ""), null);
                break;
            case "create":
                client.create(path, words[3].getBytes(), Ids.OPEN_ACL_UNSAFE, mode(all),
                    (int code, String p, Object c, String name) ->
                        answer(number, code, code == 0 ? name : ""), null);
                break;
            case "set":
                client.setData(path, words[3].getBytes(), Integer.parseInt(words[4]),
                    (code, p, c, stat) ->
                        answer(number, code, code == 0 ? version(stat) : ""), null);
                break;
            case "delete":
                client.delete(path, Integer.parseInt(words[3]),
                    (code, p, c) -> answer(number, code, ""), null);
                break;
            case "sync":
                client.sync(path, (code, p, c) -> answer(number, code, ""), null);
                break;
            case "acl":
                client.getACL(path, new Stat(), (code, p, c, acl, stat) ->
                    answer(number, code, code == 0 ? "" + acl.size() : ""), null);
                break;
            case "auth":
                // The client does not report the reply.
                client.addAuthInfo(words[2], words[3].getBytes());
                say(number + " ok");
                break;
            case "session":
                say(number + " ok 0x" + Long.toHexString(client.getSessionId()));
                break;
            case "watch":
                client.addWatch(path, watcher(), words[3].equals("recursive")
                    ? AddWatchMode.PERSISTENT_RECURSIVE : AddWatchMode.PERSISTENT,
                    (code, p, c) -> answer(number, code, ""), null);
                break;
            case "multi":
                multi(number, String.join(" ", all.subList(2, all.size())));
                break;
            case "lock":
                lock(number, path);
                break;
            case "unlock":
                unlock(number, path);
                break;
            default:
                say(number + " unsupported");
        }
    }

    public static void main(String[] arguments) throws IOException {
        say("client ZooKeeper(Java) " + Version.getVersion());
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                run(words);
            } catch (Exception error) {
                say(words[0] + " error other " + error);
            }
        }
        System.exit(0);
    }
}
