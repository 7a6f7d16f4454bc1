/* The processor of a spec: it updates a row of its store for each record, and passes rows on in punctuations. */

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsProcessor implements Processor<Object, Object, Object, Object> {
    private final JsonNode call;
    private ProcessorContext<Object, Object> context;
    private StateStore store;

    StreamsProcessor(JsonNode call) {
        this.call = call;
    }

    static StoreBuilder store(JsonNode call) {
        String name = call.get("name").asText();
        Serde<Object> key = StreamsCalls.serde(call.get("key"));
        Serde<Object> value = StreamsCalls.serde(call.get("value"));
        boolean persistent = call.path("persistent").asBoolean(true);
        Duration retention = Duration.ofMillis(call.path("retention_ms").asLong(0));
        StoreBuilder found = switch (call.get("kind").asText()) {
            case "key-value" -> Stores.keyValueStoreBuilder(
                    persistent ? Stores.persistentKeyValueStore(name) : Stores.inMemoryKeyValueStore(name), key, value);
            case "timestamped-key-value" -> Stores.timestampedKeyValueStoreBuilder(
                    persistent ? Stores.persistentTimestampedKeyValueStore(name) : Stores.inMemoryKeyValueStore(name),
                    key, value);
            case "versioned-key-value" -> Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(call.get("history_ms").asLong())),
                    key, value);
            case "window" -> {
                Duration window = Duration.ofMillis(call.get("window_ms").asLong());
                boolean duplicates = call.path("retain_duplicates").asBoolean();
                yield Stores.windowStoreBuilder(
                        persistent
                                ? Stores.persistentWindowStore(name, retention, window, duplicates)
                                : Stores.inMemoryWindowStore(name, retention, window, duplicates),
                        key, value);
            }
            default -> throw new IllegalArgumentException("store " + call);
        };
        found = call.path("caching").asBoolean() ? found.withCachingEnabled() : found;
        return call.path("logging").asBoolean(true) ? found.withLoggingEnabled(Map.of()) : found.withLoggingDisabled();
    }

    @Override
    public void init(ProcessorContext<Object, Object> given) {
        context = given;
        for (JsonNode each : call.path("stores")) {
            store = store == null ? context.getStateStore(each.asText()) : store;
        }
        for (JsonNode each : call.path("punctuate")) {
            PunctuationType type = each.get("type").asText().equals("stream_time")
                    ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
            context.schedule(Duration.ofMillis(each.get("interval_ms").asLong()), type,
                    time -> punctuate(time, each.get("action").asText()));
        }
    }

    private void punctuate(long time, String action) {
        if (action.equals("tick")) {
            context.forward(new Record<>("tick", String.valueOf(time), Math.max(0, time)));
            return;
        }
        List<KeyValue<Object, Object>> rows = new ArrayList<>();
        if (store instanceof KeyValueStore rowStore) {
            try (KeyValueIterator<Object, Object> all = rowStore.all()) {
                all.forEachRemaining(rows::add);
            }
        }
        for (KeyValue<Object, Object> row : rows) {
            Object value = row.value instanceof ValueAndTimestamp<?> found ? found.value() : row.value;
            context.forward(new Record<>(row.key, value, Math.max(0, time)));
            if (action.equals("emit_and_clear")) {
                ((KeyValueStore) store).delete(row.key);
            }
        }
    }

    @Override
    public void process(Record<Object, Object> record) {
        Object value = record.value();
        Object stored = null;
        if (store != null && record.key() != null) {
            stored = StreamsFunctions.value(call.get("update"), record.key(), value, old(record));
            put(record, stored);
        }
        context.forward(record.withValue(StreamsFunctions.value(call.get("emit"), record.key(), value, stored)));
    }

    private long start(Record<Object, Object> record) {
        long step = call.path("step_ms").asLong(10);
        return record.timestamp() - record.timestamp() % step;
    }

    private Object old(Record<Object, Object> record) {
        if (store instanceof WindowStore rows) {
            return rows.fetch(record.key(), start(record));
        }
        if (store instanceof VersionedKeyValueStore rows) {
            VersionedRecord<Object> found = rows.get(record.key());
            return found == null ? null : found.value();
        }
        Object found = ((KeyValueStore) store).get(record.key());
        return found instanceof ValueAndTimestamp<?> both ? both.value() : found;
    }

    private void put(Record<Object, Object> record, Object value) {
        if (store instanceof WindowStore rows) {
            rows.put(record.key(), value, start(record));
        } else if (store instanceof VersionedKeyValueStore rows) {
            rows.put(record.key(), value, record.timestamp());
        } else if (store instanceof TimestampedKeyValueStore rows) {
            rows.put(record.key(), ValueAndTimestamp.make(value, record.timestamp()));
        } else {
            ((KeyValueStore) store).put(record.key(), value);
        }
    }
}
