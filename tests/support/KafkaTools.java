import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in this JVM: kafka_tools.py asks for them on stdin, and reads the
 * exit code and both outputs from stdout. A tool has its own streams; its exit ends only the tool.
 */
public final class KafkaTools {
    /** Ends the thread that asked for the exit; what the tool still prints on its way is dropped. */
    private static final class Ended extends Error {
        Ended() {
            super("the tool has ended", null, false, false);
        }
    }

    private static final class Run {
        final InputStream in;
        final ByteArrayOutputStream out;
        final ByteArrayOutputStream err;
        final List<Runnable> hooks = Collections.synchronizedList(new ArrayList<>());
        final CompletableFuture<Integer> code = new CompletableFuture<>();

        Run(byte[] stdin) {
            in = new ByteArrayInputStream(stdin);
            out = new ByteArrayOutputStream();
            err = new ByteArrayOutputStream();
        }

        /** The shutdown hooks, which run after `ended`. */
        Run(Run ended) {
            in = ended.in;
            out = ended.out;
            err = ended.err;
        }
    }

    /** Threads that a tool starts belong to its run. */
    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();

    private static PrintStream routed(boolean isError) {
        return new PrintStream(new OutputStream() {
            @Override
            public void write(int octet) {
                write(new byte[] {(byte) octet}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int from, int count) {
                Run run = CURRENT.get();
                if (run != null && !run.code.isDone())
                    (isError ? run.err : run.out).write(bytes, from, count);
            }
        }, true);
    }

    private static void end(int code) {
        Run run = CURRENT.get();
        if (run != null)
            run.code.complete(code);
        throw new Ended();
    }

    /** The directory is that of a class of the tests; empty for one of Kafka's. */
    private static ClassLoader loader(String directory) throws Exception {
        ClassLoader own = KafkaTools.class.getClassLoader();
        return directory.isEmpty() ? own : new URLClassLoader(new URL[] {new File(directory + "/").toURI().toURL()}, own);
    }

    private static void call(Run run, String directory, String className, String[] arguments) {
        CURRENT.set(run);
        try {
            Method main = Class.forName(className, true, loader(directory)).getMethod("main", String[].class);
            main.invoke(null, (Object) arguments);
            run.code.complete(0);
        } catch (InvocationTargetException error) {
            if (!run.code.isDone()) {
                // As the JVM reports it.
                System.err.print("Exception in thread \"main\" ");
                error.getCause().printStackTrace();
                run.code.complete(1);
            }
        } catch (Exception error) {
            System.err.println("cannot run " + className + ": " + error);
            run.code.complete(1);
        }
    }

    private static byte[] bytes(DataInputStream in) throws Exception {
        return in.readNBytes(in.readInt());
    }

    private static void answer(DataOutputStream out, Run run) throws Exception {
        out.writeInt(run.code.get());
        for (ByteArrayOutputStream each : List.of(run.out, run.err)) {
            out.writeInt(each.size());
            each.writeTo(out);
        }
        out.flush();
    }

    public static void main(String[] none) throws Exception {
        DataInputStream asked = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        System.setOut(routed(false));
        System.setErr(routed(true));
        System.setIn(new InputStream() {
            @Override
            public int read() throws IOException {
                return CURRENT.get().in.read();
            }

            @Override
            public int read(byte[] bytes, int from, int count) throws IOException {
                return CURRENT.get().in.read(bytes, from, count);
            }
        });
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> CURRENT.get().hooks.add(hook));
        while (true) {
            String[] words;
            try {
                words = new String[asked.readInt()];
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            for (int i = 0; i < words.length; i++)
                words[i] = new String(bytes(asked), "UTF-8");
            Run run = new Run(bytes(asked));
            String[] arguments = Arrays.copyOfRange(words, 2, words.length);
            Thread thread = new Thread(() -> call(run, words[0], words[1], arguments), "main");
            thread.setDaemon(true);
            thread.start();
            run.code.get();
            Run after = new Run(run);
            for (Runnable hook : run.hooks) {
                Thread hooked = new Thread(() -> { CURRENT.set(after); hook.run(); }, "hook");
                hooked.setDaemon(true);
                hooked.start();
                hooked.join();
            }
            after.code.complete(run.code.get());
            answer(answers, after);
        }
    }
}
