/* The joins, windows and suppressions of a spec on Kafka's DSL. */

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.time.Instant;
import java.util.function.BiFunction;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.Windows;
import org.apache.kafka.streams.kstream.internals.NamedInternal;

@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsJoins {
    private StreamsJoins() {}

    private static Duration ms(JsonNode of, String field) {
        return Duration.ofMillis(of.path(field).asLong(0));
    }

    private static Named named(JsonNode call) {
        return call.hasNonNull("name") ? Named.as(call.get("name").asText()) : NamedInternal.empty();
    }

    static Object windowedBy(Object on, JsonNode of) {
        Duration grace = ms(of, "grace_ms");
        switch (of.get("kind").asText()) {
            case "sliding": {
                SlidingWindows found = SlidingWindows.ofTimeDifferenceAndGrace(ms(of, "difference_ms"), grace);
                return on instanceof KGroupedStream group
                        ? group.windowedBy(found) : ((CogroupedKStream) on).windowedBy(found);
            }
            case "session": {
                SessionWindows found = SessionWindows.ofInactivityGapAndGrace(ms(of, "gap_ms"), grace);
                return on instanceof KGroupedStream group
                        ? group.windowedBy(found) : ((CogroupedKStream) on).windowedBy(found);
            }
            default: {
                Windows found;
                if (of.get("kind").asText().equals("unlimited")) {
                    found = UnlimitedWindows.of().startOn(Instant.ofEpochMilli(of.path("start_ms").asLong(0)));
                } else {
                    TimeWindows time = TimeWindows.ofSizeAndGrace(ms(of, "size_ms"), grace);
                    found = of.has("advance_ms") ? time.advanceBy(ms(of, "advance_ms")) : time;
                }
                return on instanceof KGroupedStream group
                        ? group.windowedBy(found) : ((CogroupedKStream) on).windowedBy(found);
            }
        }
    }

    static Suppressed suppressed(JsonNode call) {
        Suppressed.BufferConfig buffer;
        Suppressed.StrictBufferConfig strict;
        if (call.has("max_records") || call.has("max_bytes")) {
            Suppressed.EagerBufferConfig eager = call.has("max_records")
                    ? Suppressed.BufferConfig.maxRecords(call.get("max_records").asLong())
                    : Suppressed.BufferConfig.maxBytes(call.get("max_bytes").asLong());
            strict = eager.shutDownWhenFull();
            buffer = call.path("full").asText("emit").equals("emit") ? eager.emitEarlyWhenFull() : strict;
        } else {
            strict = Suppressed.BufferConfig.unbounded();
            buffer = strict;
        }
        if (call.has("logging") && !call.get("logging").asBoolean()) {
            buffer = buffer.withLoggingDisabled();
            strict = (Suppressed.StrictBufferConfig) ((Suppressed.BufferConfig) strict).withLoggingDisabled();
        }
        Suppressed found = call.get("until").asText().equals("window_closes")
                ? Suppressed.untilWindowCloses(strict)
                : Suppressed.untilTimeLimit(ms(call, "limit_ms"), buffer);
        return call.hasNonNull("name") ? found.withName(call.get("name").asText()) : found;
    }

    static Object onStream(KStream<Object, Object> on, Object with, JsonNode call) {
        String name = call.get("call").asText();
        ValueJoinerWithKey<Object, Object, Object, Object> joiner =
                (key, left, right) -> StreamsFunctions.value(call.get("joiner"), key, left, right);
        if (with instanceof KStream) {
            return streams(on, (KStream<Object, Object>) with, joiner, call);
        }
        if (with instanceof GlobalKTable) {
            GlobalKTable<Object, Object> table = (GlobalKTable<Object, Object>) with;
            KeyValueMapper<Object, Object, Object> select =
                    (key, value) -> StreamsFunctions.value(call.get("select"), key, value, null);
            return name.equals("join")
                    ? on.join(table, select, joiner, named(call))
                    : on.leftJoin(table, select, joiner, named(call));
        }
        Joined<Object, Object, Object> joined = Joined.with(StreamsCalls.serde(call.get("key")),
                StreamsCalls.serde(call.get("left")), StreamsCalls.serde(call.get("right")));
        joined = call.hasNonNull("name") ? joined.withName(call.get("name").asText()) : joined;
        joined = call.has("grace_ms") ? joined.withGracePeriod(ms(call, "grace_ms")) : joined;
        KTable<Object, Object> table = (KTable<Object, Object>) with;
        return name.equals("join") ? on.join(table, joiner, joined) : on.leftJoin(table, joiner, joined);
    }

    private static Object streams(KStream<Object, Object> on, KStream<Object, Object> with,
            ValueJoinerWithKey<Object, Object, Object, Object> joiner, JsonNode call) {
        JsonNode of = call.get("windows");
        Duration before = ms(of, "before_ms");
        // Either side may be negative, but not while the other one is smaller.
        JoinWindows windows = JoinWindows
                .ofTimeDifferenceAndGrace(Duration.ofMillis(Math.max(of.path("after_ms").asLong(), before.toMillis())),
                        ms(of, "grace_ms"))
                .before(before).after(ms(of, "after_ms"));
        StreamJoined<Object, Object, Object> joined = StreamJoined.with(StreamsCalls.serde(call.get("key")),
                StreamsCalls.serde(call.get("left")), StreamsCalls.serde(call.get("right")));
        joined = call.hasNonNull("name") ? joined.withName(call.get("name").asText()) : joined;
        joined = call.hasNonNull("store") ? joined.withStoreName(call.get("store").asText()) : joined;
        joined = call.path("logging").asBoolean(true) ? joined : joined.withLoggingDisabled();
        return switch (call.get("call").asText()) {
            case "join" -> on.join(with, joiner, windows, joined);
            case "left_join" -> on.leftJoin(with, joiner, windows, joined);
            case "outer_join" -> on.outerJoin(with, joiner, windows, joined);
            default -> throw new IllegalArgumentException("call " + call);
        };
    }

    static Object onTable(KTable<Object, Object> on, Object with, JsonNode call, Materialized store) {
        ValueJoiner<Object, Object, Object> joiner =
                (left, right) -> StreamsFunctions.value(call.get("joiner"), null, left, right);
        KTable<Object, Object> other = (KTable<Object, Object>) with;
        Named named = named(call);
        if (call.hasNonNull("foreign_key")) {
            BiFunction<Object, Object, Object> select =
                    (key, value) -> StreamsFunctions.value(call.get("foreign_key"), key, value, null);
            TableJoined<Object, Object> joined = TableJoined.with(null, null);
            joined = call.hasNonNull("name") ? joined.withName(call.get("name").asText()) : joined;
            if (call.get("call").asText().equals("join")) {
                return store == null
                        ? on.join(other, select, joiner, joined)
                        : on.join(other, select, joiner, joined, store);
            }
            return store == null
                    ? on.leftJoin(other, select, joiner, joined)
                    : on.leftJoin(other, select, joiner, joined, store);
        }
        return switch (call.get("call").asText()) {
            case "join" -> store == null
                    ? on.join(other, joiner, named) : on.join(other, joiner, named, store);
            case "left_join" -> store == null
                    ? on.leftJoin(other, joiner, named) : on.leftJoin(other, joiner, named, store);
            case "outer_join" -> store == null
                    ? on.outerJoin(other, joiner, named) : on.outerJoin(other, joiner, named, store);
            default -> throw new IllegalArgumentException("call " + call);
        };
    }
}
