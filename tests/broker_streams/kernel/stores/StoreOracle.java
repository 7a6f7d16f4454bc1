/* Stores of Kafka Streams on its TopologyTestDriver, for comparison: a JSON request a line, a JSON answer a line.
 *
 * A request has a store, and batches of calls, each [timestamp, call, arguments...]. Keys are texts, values are longs;
 * a value of a timestamped store is [value, timestamp]. The driver commits after each batch. The answer has, for each
 * batch:
 *   results   what each call returned; rows of iterators as [key, value], windowed keys as [key, start, end]
 *   flushed   changes that left the cache: key, new value, old value, and the timestamp that the DSL gives them
 *   log       records of the changelog: key and value in hex, timestamp
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.CacheFlushListener;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.apache.kafka.streams.test.TestRecord;

@SuppressWarnings({"unchecked", "rawtypes"})
public final class StoreOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final String ROWS = "rows";

    private final JsonNode request;
    private final boolean timestamped;
    private List<Object> results;
    private List<Object> flushed;

    private StoreOracle(JsonNode request) {
        this.request = request;
        this.timestamped = request.get("kind").asText().startsWith("timestamped");
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(new StoreOracle(JSON.readTree(line)).answer()));
            out.flush();
        }
    }

    private StoreBuilder<?> builder() {
        Serde<String> key = Serdes.String();
        Serde<Long> value = Serdes.Long();
        boolean persistent = request.path("persistent").asBoolean(true);
        boolean byTime = request.path("time_ordered").asBoolean();
        Duration retention = Duration.ofMillis(request.path("retention_ms").asLong());
        StoreBuilder<?> found = switch (request.get("kind").asText()) {
            case "key-value" -> Stores.keyValueStoreBuilder(
                    persistent ? Stores.persistentKeyValueStore(ROWS) : Stores.inMemoryKeyValueStore(ROWS), key, value);
            case "timestamped-key-value" -> Stores.timestampedKeyValueStoreBuilder(
                    persistent ? Stores.persistentTimestampedKeyValueStore(ROWS) : Stores.inMemoryKeyValueStore(ROWS),
                    key, value);
            case "versioned-key-value" -> Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(ROWS, Duration.ofMillis(request.get("history_ms").asLong()),
                            Duration.ofMillis(request.get("interval_ms").asLong())),
                    key, value);
            case "window" -> Stores.windowStoreBuilder(windows(persistent, byTime, retention), key, value);
            case "timestamped-window" ->
                    Stores.timestampedWindowStoreBuilder(windows(persistent, byTime, retention), key, value);
            default -> Stores.sessionStoreBuilder(sessions(persistent, byTime, retention), key, value);
        };
        return request.path("caching").asBoolean() ? found.withCachingEnabled() : found.withCachingDisabled();
    }

    private WindowBytesStoreSupplier windows(boolean persistent, boolean byTime, Duration retention) {
        Duration window = Duration.ofMillis(request.get("window_ms").asLong());
        boolean duplicates = request.path("duplicates").asBoolean();
        if (byTime) {
            return RocksDbIndexedTimeOrderedWindowBytesStoreSupplier.create(
                    ROWS, retention, window, duplicates, request.path("indexed").asBoolean());
        }
        if (!persistent) {
            return Stores.inMemoryWindowStore(ROWS, retention, window, duplicates);
        }
        return timestamped
                ? Stores.persistentTimestampedWindowStore(ROWS, retention, window, duplicates)
                : Stores.persistentWindowStore(ROWS, retention, window, duplicates);
    }

    private SessionBytesStoreSupplier sessions(boolean persistent, boolean byTime, Duration retention) {
        if (byTime) {
            return new RocksDbTimeOrderedSessionBytesStoreSupplier(ROWS, retention.toMillis(), true);
        }
        return persistent
                ? Stores.persistentSessionStore(ROWS, retention)
                : Stores.inMemorySessionStore(ROWS, retention);
    }

    /** Passes the calls of a batch on, each with its timestamp. */
    private static final class Script implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
        }

        @Override
        public void process(Record<String, String> record) {
            for (JsonNode call : read(record.value())) {
                context.forward(new Record<>("k", call.toString(), call.get(0).asLong(), record.headers()));
            }
        }
    }

    private final class Calls implements Processor<String, String, Void, Void> {
        private StateStore store;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            store = context.getStateStore(ROWS);
            if (request.path("listens").asBoolean()) {
                CacheFlushListener<Object, Object> listener = record -> {
                    Change<Object> change = record.value();
                    flushed.add(Arrays.asList(shown(record.key()), plain(change.newValue), plain(change.oldValue),
                            time(record.key(), change.newValue, record.timestamp())));
                };
                ((WrappedStateStore) store)
                        .setFlushListener(listener, request.path("old").asBoolean());
            }
        }

        @Override
        public void process(Record<String, String> record) {
            results.add(shown(call(store, read(record.value()))));
        }
    }

    private static JsonNode read(String text) {
        try {
            return JSON.readTree(text);
        } catch (IOException error) {
            throw new IllegalArgumentException(text, error);
        }
    }

    private Map<String, Object> answer() throws Exception {
        Topology topology = new Topology();
        topology.addSource("in", new StringDeserializer(), new StringDeserializer(), "input");
        topology.addProcessor("script", Script::new, "in");
        topology.addProcessor("calls", Calls::new, "script");
        topology.addStateStore(builder(), "calls");
        Properties settings = new Properties();
        settings.put("application.id", "app");
        settings.put("bootstrap.servers", "none:1");
        settings.put("statestore.cache.max.bytes", request.path("cache_bytes").asText("0"));
        settings.put("state.dir", Files.createTempDirectory("stores").toString());
        List<Object> batches = new ArrayList<>();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings)) {
            var input = driver.createInputTopic("input", new StringSerializer(), new StringSerializer());
            TestOutputTopic<byte[], byte[]> changes = driver.createOutputTopic(
                    "app-rows-changelog", new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (JsonNode batch : request.get("batches")) {
                results = new ArrayList<>();
                flushed = new ArrayList<>();
                input.pipeInput("k", batch.toString(), batch.get(0).get(0).asLong());
                List<Object> log = new ArrayList<>();
                while (!changes.isEmpty()) {
                    TestRecord<byte[], byte[]> record = changes.readRecord();
                    log.add(Arrays.asList(HEX.formatHex(record.key()),
                            record.value() == null ? null : HEX.formatHex(record.value()), record.timestamp()));
                }
                Map<String, Object> found = new LinkedHashMap<>();
                found.put("results", results);
                found.put("flushed", flushed);
                found.put("log", log);
                batches.add(found);
            }
        }
        return Map.of("batches", batches);
    }

    private static Object shown(Object value) {
        if (value instanceof ValueAndTimestamp<?> both) {
            return Arrays.asList(both.value(), both.timestamp());
        }
        if (value instanceof VersionedRecord<?> version) {
            return Arrays.asList(version.value(), version.timestamp());
        }
        if (value instanceof Windowed<?> windowed) {
            return Arrays.asList(windowed.key(), windowed.window().start(), windowed.window().end());
        }
        if (value instanceof KeyValueIterator<?, ?> rows) {
            List<Object> found = new ArrayList<>();
            try (rows) {
                while (rows.hasNext()) {
                    KeyValue<?, ?> row = rows.next();
                    found.add(Arrays.asList(shown(row.key), shown(row.value)));
                }
            }
            return found;
        }
        return value;
    }

    private static Object plain(Object value) {
        return value instanceof ValueAndTimestamp<?> both ? both.value() : value;
    }

    /** The timestamp that the listeners of the DSL give a change. */
    private static long time(Object key, Object value, long timestamp) {
        if (value instanceof ValueAndTimestamp<?> both) {
            return both.timestamp();
        }
        return key instanceof Windowed<?> windowed && windowed.window() instanceof SessionWindow
                ? windowed.window().end() : timestamp;
    }

    private Object value(JsonNode of) {
        if (of.isNull()) {
            return null;
        }
        return timestamped ? ValueAndTimestamp.make(of.get(0).asLong(), of.get(1).asLong()) : (Object) of.asLong();
    }

    private Object call(StateStore store, JsonNode call) {
        String name = call.get(1).asText();
        if (store instanceof WindowStore rows) {
            return onWindows(rows, name, call);
        }
        if (store instanceof SessionStore rows) {
            return onSessions(rows, name, call);
        }
        if (store instanceof VersionedKeyValueStore rows) {
            return onVersions(rows, name, call);
        }
        return onRows((KeyValueStore) store, name, call);
    }

    private static String text(JsonNode call, int at) {
        return call.get(at).isNull() ? null : call.get(at).asText();
    }

    private static long number(JsonNode call, int at) {
        return call.get(at).asLong();
    }

    private Object onRows(KeyValueStore rows, String name, JsonNode call) {
        switch (name) {
            case "put":
                rows.put(text(call, 2), value(call.get(3)));
                return null;
            case "put_if_absent":
                return rows.putIfAbsent(text(call, 2), value(call.get(3)));
            case "put_all":
                List<KeyValue<Object, Object>> all = new ArrayList<>();
                call.get(2).forEach(row -> all.add(KeyValue.pair(text(row, 0), value(row.get(1)))));
                rows.putAll(all);
                return null;
            case "delete":
                return rows.delete(text(call, 2));
            case "get":
                return rows.get(text(call, 2));
            case "range":
                return rows.range(text(call, 2), text(call, 3));
            case "reverse_range":
                return rows.reverseRange(text(call, 2), text(call, 3));
            case "all":
                return rows.all();
            case "reverse_all":
                return rows.reverseAll();
            case "prefix_scan":
                return rows.prefixScan(text(call, 2), new StringSerializer());
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private Object onWindows(WindowStore rows, String name, JsonNode call) {
        switch (name) {
            case "put":
                rows.put(text(call, 2), value(call.get(3)), number(call, 4));
                return null;
            case "fetch":
                return rows.fetch(text(call, 2), number(call, 3));
            case "fetch_range":
                return rows.fetch(text(call, 2), number(call, 3), number(call, 4));
            case "backward_fetch_range":
                return rows.backwardFetch(text(call, 2), number(call, 3), number(call, 4));
            case "fetch_keys":
                return rows.fetch(text(call, 2), text(call, 3), number(call, 4), number(call, 5));
            case "backward_fetch_keys":
                return rows.backwardFetch(text(call, 2), text(call, 3), number(call, 4), number(call, 5));
            case "all":
                return rows.all();
            case "backward_all":
                return rows.backwardAll();
            case "fetch_all":
                return rows.fetchAll(number(call, 2), number(call, 3));
            case "backward_fetch_all":
                return rows.backwardFetchAll(number(call, 2), number(call, 3));
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private Object onSessions(SessionStore rows, String name, JsonNode call) {
        switch (name) {
            case "put":
                rows.put(session(call), value(call.get(5)));
                return null;
            case "remove":
                rows.remove(session(call));
                return null;
            case "fetch_session":
                return rows.fetchSession(text(call, 2), number(call, 3), number(call, 4));
            case "find_sessions":
                return rows.findSessions(text(call, 2), number(call, 3), number(call, 4));
            case "backward_find_sessions":
                return rows.backwardFindSessions(text(call, 2), number(call, 3), number(call, 4));
            case "find_sessions_of_keys":
                return rows.findSessions(text(call, 2), text(call, 3), number(call, 4), number(call, 5));
            case "backward_find_sessions_of_keys":
                return rows.backwardFindSessions(text(call, 2), text(call, 3), number(call, 4), number(call, 5));
            case "find_sessions_by_end":
                return rows.findSessions(number(call, 2), number(call, 3));
            case "fetch":
                return rows.fetch(text(call, 2));
            case "backward_fetch":
                return rows.backwardFetch(text(call, 2));
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static Windowed<Object> session(JsonNode call) {
        return new Windowed<>(text(call, 2), new SessionWindow(number(call, 3), number(call, 4)));
    }

    private Object onVersions(VersionedKeyValueStore rows, String name, JsonNode call) {
        switch (name) {
            case "put":
                return rows.put(text(call, 2), value(call.get(3)), number(call, 4));
            case "delete":
                return rows.delete(text(call, 2), number(call, 3));
            case "get":
                return rows.get(text(call, 2));
            case "get_as_of":
                return rows.get(text(call, 2), number(call, 3));
            default:
                throw new IllegalArgumentException(name);
        }
    }
}
