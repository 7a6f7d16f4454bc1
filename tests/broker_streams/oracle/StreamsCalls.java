/* The calls of a spec on Kafka's DSL (spec.py has the table). An option that the spec leaves out selects the overload
 * without it where Kafka distinguishes them.
 */

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.state.Stores;

@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsCalls {
    private final Map<String, Object> made = new HashMap<>();
    final StreamsBuilder builder = new StreamsBuilder();

    static Serde<Object> serde(JsonNode of) {
        if (of == null || of.isNull()) {
            return null;
        }
        switch (of.asText()) {
            case "string":
                return (Serde) Serdes.String();
            case "long":
                return (Serde) Serdes.Long();
            default:
                throw new IllegalArgumentException("serde " + of.asText());
        }
    }

    static Named named(JsonNode call) {
        return call.hasNonNull("name") ? Named.as(call.get("name").asText()) : NamedInternal.empty();
    }

    private static String name(JsonNode call) {
        return call.hasNonNull("name") ? call.get("name").asText() : null;
    }

    private static Duration ms(JsonNode of, String field) {
        return Duration.ofMillis(of.path(field).asLong(0));
    }

    /** Null if the call has none. */
    static Materialized materialized(JsonNode call) {
        JsonNode of = call.get("materialized");
        if (of == null || of.isNull()) {
            return null;
        }
        String kind = of.path("kind").asText("persistent");
        Materialized found;
        if (kind.equals("versioned")) {
            found = Materialized.as(
                    Stores.persistentVersionedKeyValueStore(of.get("name").asText(), ms(of, "history_ms")));
        } else {
            found = of.hasNonNull("name")
                    ? Materialized.as(of.get("name").asText())
                    : Materialized.with(serde(of.get("key")), serde(of.get("value")));
        }
        if (of.hasNonNull("key")) {
            found = found.withKeySerde(serde(of.get("key")));
        }
        if (of.hasNonNull("value")) {
            found = found.withValueSerde(serde(of.get("value")));
        }
        if (kind.equals("memory")) {
            found = found.withStoreType(Materialized.StoreType.IN_MEMORY);
        }
        if (of.has("caching")) {
            found = of.get("caching").asBoolean() ? found.withCachingEnabled() : found.withCachingDisabled();
        }
        if (of.has("logging") && !of.get("logging").asBoolean()) {
            found = found.withLoggingDisabled();
        }
        return of.has("retention_ms") ? found.withRetention(ms(of, "retention_ms")) : found;
    }

    private static Consumed<Object, Object> consumed(JsonNode call) {
        Consumed<Object, Object> found = Consumed.with(serde(call.get("key")), serde(call.get("value")));
        if (call.hasNonNull("timestamp")) {
            found = found.withTimestampExtractor((record, last) ->
                    (Long) StreamsFunctions.value(call.get("timestamp"), record.key(), record.value(), last));
        }
        return call.hasNonNull("name") ? found.withName(call.get("name").asText()) : found;
    }

    private static Grouped<Object, Object> grouped(JsonNode call) {
        return Grouped.with(name(call), serde(call.get("key")), serde(call.get("value")));
    }

    private static boolean has(JsonNode call, String... fields) {
        for (String each : fields) {
            if (call.hasNonNull(each)) {
                return true;
            }
        }
        return false;
    }

    private static KeyValueMapper<Object, Object, Object> mapper(JsonNode of) {
        return (key, value) -> StreamsFunctions.value(of, key, value, null);
    }

    void make(JsonNode call) {
        String id = call.path("id").asText("");
        Object on = call.hasNonNull("on") ? made.get(call.get("on").asText()) : null;
        Object found;
        if (on == null) {
            found = onBuilder(call);
        } else if (on instanceof KStream) {
            found = onStream((KStream<Object, Object>) on, call);
        } else if (on instanceof KTable) {
            found = onTable((KTable<Object, Object>) on, call);
        } else {
            found = onGroup(on, call);
        }
        if (!id.isEmpty()) {
            made.put(id, found);
        }
    }

    private Object onBuilder(JsonNode call) {
        JsonNode topic = call.path("topic");
        switch (call.get("call").asText()) {
            case "stream": {
                if (call.hasNonNull("pattern")) {
                    return builder.stream(Pattern.compile(call.get("pattern").asText()), consumed(call));
                }
                List<String> topics = new ArrayList<>();
                call.path("topics").forEach(each -> topics.add(each.asText()));
                return topics.isEmpty()
                        ? builder.stream(topic.asText(), consumed(call))
                        : builder.stream(topics, consumed(call));
            }
            case "table": {
                Materialized store = materialized(call);
                return store == null
                        ? builder.table(topic.asText(), consumed(call))
                        : builder.table(topic.asText(), consumed(call), store);
            }
            case "global_table": {
                Materialized store = materialized(call);
                return store == null
                        ? builder.globalTable(topic.asText(), consumed(call))
                        : builder.globalTable(topic.asText(), consumed(call), store);
            }
            case "add_state_store":
                return builder.addStateStore(StreamsProcessor.store(call));
            default:
                throw new IllegalArgumentException("call " + call);
        }
    }

    private Object onStream(KStream<Object, Object> on, JsonNode call) {
        JsonNode to = call.get("to");
        Named named = named(call);
        boolean withKey = call.path("with_key").asBoolean();
        Predicate<Object, Object> predicate =
                (key, value) -> StreamsFunctions.holds(call.get("predicate"), key, value, null);
        switch (call.get("call").asText()) {
            case "filter":
                return on.filter(predicate, named);
            case "filter_not":
                return on.filterNot(predicate, named);
            case "map":
                return on.map((key, value) -> StreamsFunctions.pair(to, key, value), named);
            case "map_values":
                return withKey
                        ? on.mapValues((key, value) -> StreamsFunctions.value(to, key, value, null), named)
                        : on.mapValues((ValueMapper<Object, Object>) value ->
                                StreamsFunctions.value(to, null, value, null), named);
            case "flat_map":
                return on.flatMap((key, value) -> StreamsFunctions.pairs(to, key, value), named);
            case "flat_map_values":
                return withKey
                        ? on.flatMapValues((key, value) -> StreamsFunctions.values(to, key, value), named)
                        : on.flatMapValues((ValueMapper<Object, Iterable<Object>>) value ->
                                StreamsFunctions.values(to, null, value), named);
            case "select_key":
                return on.selectKey(mapper(to), named);
            case "peek":
                return on.peek((key, value) -> { }, named);
            case "foreach":
                on.foreach((key, value) -> { }, named);
                return null;
            case "merge":
                return on.merge((KStream<Object, Object>) made.get(call.get("with").asText()), named);
            case "split":
                return split(on, call);
            case "repartition":
                return on.repartition(repartitioned(call));
            case "to": {
                Produced<Object, Object> produced = Produced.with(serde(call.get("key")), serde(call.get("value")));
                produced = call.hasNonNull("name") ? produced.withName(call.get("name").asText()) : produced;
                if (call.hasNonNull("topic_of")) {
                    on.to((key, value, context) ->
                            StreamsFunctions.text(StreamsFunctions.value(call.get("topic_of"), key, value, null)),
                            produced);
                } else {
                    on.to(call.get("topic").asText(), produced);
                }
                return null;
            }
            case "to_table": {
                Materialized store = materialized(call);
                return store == null ? on.toTable(named) : on.toTable(named, store);
            }
            case "group_by":
                return has(call, "name", "key", "value")
                        ? on.groupBy(mapper(to), grouped(call))
                        : on.groupBy(mapper(to));
            case "group_by_key":
                return has(call, "name", "key", "value") ? on.groupByKey(grouped(call)) : on.groupByKey();
            case "process": {
                List<String> stores = new ArrayList<>();
                call.path("stores").forEach(each -> stores.add(each.asText()));
                String[] names = stores.toArray(new String[0]);
                return call.hasNonNull("name")
                        ? on.process(() -> new StreamsProcessor(call), named, names)
                        : on.process(() -> new StreamsProcessor(call), names);
            }
            case "process_values": {
                String stored = call.get("stores").get(0).asText();
                return call.hasNonNull("name")
                        ? on.processValues(() -> new StreamsValues(call), named, stored)
                        : on.processValues(() -> new StreamsValues(call), stored);
            }
            default:
                return StreamsJoins.onStream(on, made.get(call.path("with").asText()), call);
        }
    }

    private static Repartitioned<Object, Object> repartitioned(JsonNode call) {
        Repartitioned<Object, Object> found = Repartitioned.with(serde(call.get("key")), serde(call.get("value")));
        found = call.hasNonNull("name") ? found.withName(call.get("name").asText()) : found;
        return call.hasNonNull("partitions")
                ? found.withNumberOfPartitions(call.get("partitions").asInt())
                : found;
    }

    private Object split(KStream<Object, Object> on, JsonNode call) {
        BranchedKStream<Object, Object> found = call.hasNonNull("name") ? on.split(named(call)) : on.split();
        for (JsonNode each : call.get("branches")) {
            found.branch((key, value) -> StreamsFunctions.holds(each.get("predicate"), key, value, null),
                    branched(each));
        }
        if (call.hasNonNull("default")) {
            found.defaultBranch(branched(call.get("default")));
        } else {
            found.noDefaultBranch();
        }
        return null;
    }

    private Branched<Object, Object> branched(JsonNode branch) {
        return Branched.withConsumer(stream -> made.put(branch.get("id").asText(), stream), name(branch));
    }

    private Object onTable(KTable<Object, Object> on, JsonNode call) {
        JsonNode to = call.get("to");
        Named named = named(call);
        Materialized store = materialized(call);
        Predicate<Object, Object> predicate =
                (key, value) -> StreamsFunctions.holds(call.get("predicate"), key, value, null);
        ValueMapperWithKey<Object, Object, Object> values =
                (key, value) -> StreamsFunctions.value(to, key, value, null);
        switch (call.get("call").asText()) {
            case "filter":
                return store == null ? on.filter(predicate, named) : on.filter(predicate, named, store);
            case "filter_not":
                return store == null ? on.filterNot(predicate, named) : on.filterNot(predicate, named, store);
            case "map_values":
                return store == null ? on.mapValues(values, named) : on.mapValues(values, named, store);
            case "transform_values": {
                ValueTransformerWithKeySupplier<Object, Object, Object> made = () -> StreamsValues.transformer(to);
                return store == null
                        ? on.transformValues(made, named)
                        : on.transformValues(made, store, named);
            }
            case "to_stream":
                return to == null ? on.toStream(named) : on.toStream(mapper(to), named);
            case "group_by": {
                KeyValueMapper pairs = (key, value) -> StreamsFunctions.pair(to, key, value);
                return has(call, "name", "key", "value") ? on.groupBy(pairs, grouped(call)) : on.groupBy(pairs);
            }
            case "suppress":
                return on.suppress(StreamsJoins.suppressed(call));
            default:
                return StreamsJoins.onTable(on, made.get(call.path("with").asText()), call, store);
        }
    }

    private Object onGroup(Object on, JsonNode call) {
        Object with = made.get(call.path("with").asText());
        return call.get("call").asText().equals("windowed_by")
                ? StreamsJoins.windowedBy(on, call.get("windows"))
                : new StreamsGroups(call).on(on, with);
    }
}
