/* Kafka Streams on its TopologyTestDriver, for comparison: a JSON request a line, a JSON answer a line.
 *
 *   {"op": "many", "specs": [...]}     the answers to several specs
 *   {"op": "functions", "calls"}       the values of expressions, each [expression, key, value, other]
 *   any other object                   a spec (spec.py has the language, and the form of an answer)
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

@SuppressWarnings({"unchecked", "rawtypes"})
public final class StreamsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private final JsonNode spec;
    private final Map<String, Object> answer = new LinkedHashMap<>();
    private final List<List<Object>> produced = new ArrayList<>();
    private final Set<Object> keys = new LinkedHashSet<>();

    private StreamsOracle(JsonNode spec) {
        this.spec = spec;
    }

    /** The topics of a driver in the order of the records, which its own queues do not keep. */
    private final class Queues extends HashMap<String, Queue<ProducerRecord<byte[], byte[]>>> {
        @Override
        public Queue<ProducerRecord<byte[], byte[]>> computeIfAbsent(String topic,
                Function<? super String, ? extends Queue<ProducerRecord<byte[], byte[]>>> make) {
            return super.computeIfAbsent(topic, name -> new LinkedList<>() {
                @Override
                public boolean add(ProducerRecord<byte[], byte[]> record) {
                    produced.get(produced.size() - 1).add(shown(record));
                    return super.add(record);
                }
            });
        }
    }

    private static String hex(byte[] data) {
        return data == null ? null : HEX.formatHex(data);
    }

    private static Object shown(ProducerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header each : record.headers()) {
            headers.add(list(each.key(), hex(each.value())));
        }
        return list(record.topic(), record.partition(), hex(record.key()), hex(record.value()),
                record.timestamp(), headers);
    }

    private static List<Object> list(Object... values) {
        List<Object> found = new ArrayList<>();
        Collections.addAll(found, values);
        return found;
    }

    private static byte[] bytes(JsonNode of) {
        if (of == null || of.isNull()) {
            return null;
        }
        if (of.isObject()) {
            return HEX.parseHex(of.get("hex").asText());
        }
        return of.isNumber()
                ? new LongSerializer().serialize("", of.asLong())
                : of.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static Object shown(Object value) {
        if (value == null || value instanceof String || value instanceof Long) {
            return value;
        }
        Map<String, Object> found = new TreeMap<>();
        if (value instanceof Windowed<?> windowed) {
            found.put("key", shown(windowed.key()));
            found.put("start_ms", windowed.window().start());
            found.put("end_ms", windowed.window().end());
        } else if (value instanceof ValueAndTimestamp<?> both) {
            found.put("value", shown(both.value()));
            found.put("timestamp", both.timestamp());
        } else if (value instanceof VersionedRecord<?> version) {
            found.put("value", shown(version.value()));
            found.put("timestamp", version.timestamp());
            found.put("valid_to", version.validTo().orElse(null));
        } else {
            throw new UnsupportedOperationException("rows of " + value.getClass());
        }
        return found;
    }

    private void fail(Object at, Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("at", at);
        found.put("class", error.getClass().getSimpleName());
        found.put("message", error.getMessage());
        found.put("cause", cause.getClass().getSimpleName());
        found.put("cause_message", cause.getMessage());
        answer.put("error", found);
    }

    private Map<String, Object> run(Path directory) {
        Properties config = new Properties();
        config.put("application.id", "app");
        config.put("default.key.serde", "org.apache.kafka.common.serialization.Serdes$StringSerde");
        config.put("default.value.serde", "org.apache.kafka.common.serialization.Serdes$StringSerde");
        spec.path("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        config.put("state.dir", directory.toString());
        Topology topology;
        try {
            StreamsCalls calls = new StreamsCalls();
            spec.get("calls").forEach(calls::make);
            topology = calls.builder.build(config);
            // A lambda has another name in each JVM.
            answer.put("description",
                    topology.describe().toString().replaceAll("\\(extractor class: [^\n]*\\)", "(extractor)"));
        } catch (RuntimeException error) {
            fail("build", error);
            return answer;
        }
        TopologyTestDriver driver = null;
        try {
            Instant start = Instant.ofEpochMilli(spec.path("wall_clock_ms").asLong());
            driver = new TopologyTestDriver(topology, config, start);
            Field queues = TopologyTestDriver.class.getDeclaredField("outputRecordsByTopic");
            queues.setAccessible(true);
            queues.set(driver, new Queues());
        } catch (RuntimeException | ReflectiveOperationException error) {
            fail("start", error);
            return answer;
        }
        drive(driver);
        try {
            driver.close();
        } catch (RuntimeException error) {
            if (!answer.containsKey("error")) {
                fail("close", error);
            }
        }
        return answer;
    }

    private void drive(TopologyTestDriver driver) {
        int at = 0;
        for (JsonNode input : spec.path("inputs")) {
            produced.add(new ArrayList<>());
            try {
                step(driver, input);
            } catch (RuntimeException error) {
                fail(at, error);
                break;
            }
            at++;
        }
        answer.put("records", produced);
        answer.put("dropped", dropped(driver));
        Map<String, Object> stores = new TreeMap<>();
        driver.getAllStateStores().forEach((name, store) -> stores.put(name, rows(store)));
        answer.put("stores", stores);
    }

    private void step(TopologyTestDriver driver, JsonNode input) {
        if (input.has("advance_ms")) {
            driver.advanceWallClockTime(Duration.ofMillis(input.get("advance_ms").asLong()));
            return;
        }
        RecordHeaders headers = new RecordHeaders();
        for (JsonNode each : input.path("headers")) {
            headers.add(each.get(0).asText(), each.get(1).isNull() ? null : HEX.parseHex(each.get(1).asText()));
        }
        JsonNode key = input.get("key");
        if (key != null && key.isNumber()) {
            keys.add(key.asLong());
        } else if (key != null && key.isTextual()) {
            keys.add(key.asText());
        }
        driver.createInputTopic(input.get("topic").asText(), new ByteArraySerializer(), new ByteArraySerializer())
                .pipeInput(new TestRecord<>(bytes(key), bytes(input.get("value")), headers, input.get("at").asLong()));
    }

    private static double dropped(TopologyTestDriver driver) {
        double found = 0;
        for (Metric each : driver.metrics().values()) {
            if (each.metricName().name().equals("dropped-records-total")) {
                found += (Double) each.metricValue();
            }
        }
        return found;
    }

    /** The rows of a store in its order; null for a kind without public reads. */
    private Object rows(StateStore store) {
        List<Object> found = new ArrayList<>();
        try {
            if (store instanceof VersionedKeyValueStore versioned) {
                for (Object key : keys) {
                    try {
                        VersionedRecord<?> row = versioned.get(key);
                        if (row != null) {
                            found.add(list(shown(key), shown(row)));
                        }
                    } catch (StreamsException error) {
                        // The key is of another topic, whose keys have another type.
                    }
                }
                return found;
            }
            KeyValueIterator<Object, Object> all;
            if (store instanceof SessionStore sessions) {
                all = sessions.fetch(null, null);
            } else if (store instanceof WindowStore windows) {
                all = windows.all();
            } else if (store instanceof KeyValueStore rows) {
                all = rows.all();
            } else {
                return null;
            }
            try (all) {
                while (all.hasNext()) {
                    KeyValue<Object, Object> row = all.next();
                    found.add(list(shown(row.key), shown(row.value)));
                }
            }
        } catch (UnsupportedOperationException error) {
            // The rows of an internal store, as those of subscriptions of a join by foreign keys.
            return null;
        } catch (RuntimeException error) {
            return Map.of("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        return found;
    }

    private static Object plain(JsonNode of) {
        return of.isNumber() ? (Object) of.asLong() : of.isNull() ? null : of.asText();
    }

    private static Object answered(JsonNode request) throws Exception {
        if (request.path("op").asText().equals("many")) {
            List<Object> found = new ArrayList<>();
            for (JsonNode each : request.get("specs")) {
                found.add(answered(each));
            }
            return found;
        }
        if (request.path("op").asText().equals("functions")) {
            List<Object> found = new ArrayList<>();
            for (JsonNode each : request.get("calls")) {
                found.add(StreamsFunctions.value(
                        each.get(0), plain(each.get(1)), plain(each.get(2)), plain(each.get(3))));
            }
            return found;
        }
        Path directory = Files.createTempDirectory("state");
        try {
            return new StreamsOracle(request).run(directory);
        } finally {
            remove(directory);
        }
    }

    private static void remove(Path directory) throws Exception {
        try (Stream<Path> all = Files.walk(directory)) {
            all.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    public static void main(String[] given) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answered(JSON.readTree(line))));
            out.flush();
        }
    }
}
