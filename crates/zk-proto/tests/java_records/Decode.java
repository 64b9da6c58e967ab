import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HexFormat;
import java.util.List;
import org.apache.jute.BinaryInputArchive;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.OutputArchive;
import org.apache.jute.Record;

/**
 * Decodes records with ZooKeeper's own classes: {@code java -cp zookeeper.jar Decode.java}.
 *
 * <p>Reads the name of a class, as {@code writeUTF} writes it, the number of bytes and the bytes.
 * Prints one line for each record: {@code ok}, the number of bytes that are left over, and each
 * field as {@code name=bytes}; or {@code error} and the exception.
 */
public final class Decode {
    public static void main(String[] args) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        while (true) {
            String name;
            try {
                name = in.readUTF();
            } catch (EOFException end) {
                break;
            }
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            out.println(decode(name, bytes));
            if (in.available() == 0) {
                out.flush();
            }
        }
        out.flush();
    }

    private static String decode(String name, byte[] bytes) throws Exception {
        Record record = (Record) Class.forName(name).getDeclaredConstructor().newInstance();
        ByteArrayInputStream in = new ByteArrayInputStream(bytes);
        try {
            record.deserialize(BinaryInputArchive.getArchive(in), "record");
        } catch (IOException | RuntimeException | OutOfMemoryError error) {
            return "error " + error;
        }
        StringBuilder fields = new StringBuilder();
        record.serialize(printer(fields), "record");
        return "ok " + in.available() + fields;
    }

    /** An archive that prints the name and the bytes of every value. */
    private static OutputArchive printer(StringBuilder out) {
        return (OutputArchive) Proxy.newProxyInstance(
                Decode.class.getClassLoader(),
                new Class<?>[] {OutputArchive.class},
                (archive, method, values) -> {
                    if (method.getName().equals("writeRecord")) {
                        // A null record cannot be written.
                        ((Record) values[0]).serialize((OutputArchive) archive, (String) values[1]);
                    } else if (method.getName().startsWith("write")
                            || method.getName().equals("startVector")) {
                        out.append(' ').append(values[1]).append('=');
                        out.append(bytes(method, values));
                    }
                    return null;
                });
    }

    private static String bytes(Method method, Object[] values) throws Throwable {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try {
            method.invoke(BinaryOutputArchive.getArchive(bytes), values);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
        return HexFormat.of().formatHex(bytes.toByteArray());
    }
}
