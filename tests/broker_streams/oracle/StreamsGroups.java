/* The aggregations of a spec on Kafka's DSL. Kafka counts calls with and without a Materialized differently, and names
 * depend on that count: a spec without one gets the overload without one, if Kafka has it.
 */

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;

@SuppressWarnings({"unchecked", "rawtypes"})
final class StreamsGroups {
    private final JsonNode call;
    private final Named named;
    /** Null: neither a name nor a Materialized is given, or only a name, where Kafka has an overload for that. */
    private final Materialized store;
    private final Initializer<Object> initial;
    private final Aggregator<Object, Object, Object> adder;
    private final Aggregator<Object, Object, Object> subtractor;
    private final Reducer<Object> reducer;
    private final Merger<Object, Object> merger;

    StreamsGroups(JsonNode call) {
        this.call = call;
        named = StreamsCalls.named(call);
        store = StreamsCalls.materialized(call);
        initial = () -> StreamsFunctions.value(call.get("initial"), null, null, null);
        adder = aggregator("aggregator");
        subtractor = aggregator("subtractor");
        reducer = reducer("reducer");
        merger = (key, one, other) -> StreamsFunctions.value(call.get("merger"), key, one, other);
    }

    private Aggregator<Object, Object, Object> aggregator(String field) {
        return (key, value, aggregate) -> StreamsFunctions.value(call.get(field), key, value, aggregate);
    }

    private Reducer<Object> reducer(String field) {
        return (one, other) -> StreamsFunctions.value(call.get(field), null, one, other);
    }

    /** A Materialized where Kafka has no overload with a name only. */
    private Materialized both() {
        return store == null && call.hasNonNull("name") ? Materialized.with(null, null) : store;
    }

    Object on(Object on, Object with) {
        String name = call.get("call").asText();
        if (name.equals("emit_strategy")) {
            EmitStrategy strategy = call.get("strategy").asText().equals("on_window_close")
                    ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
            return on instanceof TimeWindowedKStream windowed
                    ? windowed.emitStrategy(strategy)
                    : ((SessionWindowedKStream) on).emitStrategy(strategy);
        }
        if (name.equals("cogroup")) {
            return on instanceof CogroupedKStream group
                    ? group.cogroup((KGroupedStream) with, adder)
                    : ((KGroupedStream) on).cogroup(adder);
        }
        if (on instanceof KGroupedStream group) {
            return stream(group, name);
        }
        if (on instanceof KGroupedTable group) {
            return table(group, name);
        }
        if (on instanceof TimeWindowedKStream group) {
            return times(group, name);
        }
        return on instanceof SessionWindowedKStream group ? sessions(group, name) : cogroup(on);
    }

    private Object stream(KGroupedStream group, String name) {
        Materialized given = both();
        switch (name) {
            case "count":
                return store == null ? group.count(named) : group.count(named, store);
            case "reduce":
                return given == null ? group.reduce(reducer) : group.reduce(reducer, named, given);
            default:
                return given == null
                        ? group.aggregate(initial, adder)
                        : group.aggregate(initial, adder, named, given);
        }
    }

    private Object table(KGroupedTable group, String name) {
        Materialized given = both();
        Reducer<Object> minus = reducer("subtractor");
        switch (name) {
            case "count":
                return store == null ? group.count(named) : group.count(named, store);
            case "reduce":
                return given == null ? group.reduce(reducer, minus) : group.reduce(reducer, minus, named, given);
            default:
                return store == null
                        ? group.aggregate(initial, adder, subtractor, named)
                        : group.aggregate(initial, adder, subtractor, named, store);
        }
    }

    private Object times(TimeWindowedKStream group, String name) {
        switch (name) {
            case "count":
                return store == null ? group.count(named) : group.count(named, store);
            case "reduce":
                return store == null ? group.reduce(reducer, named) : group.reduce(reducer, named, store);
            default:
                return store == null
                        ? group.aggregate(initial, adder, named)
                        : group.aggregate(initial, adder, named, store);
        }
    }

    private Object sessions(SessionWindowedKStream group, String name) {
        switch (name) {
            case "count":
                return store == null ? group.count(named) : group.count(named, store);
            case "reduce":
                return store == null ? group.reduce(reducer, named) : group.reduce(reducer, named, store);
            default:
                return store == null
                        ? group.aggregate(initial, adder, merger, named)
                        : group.aggregate(initial, adder, merger, named, store);
        }
    }

    private Object cogroup(Object on) {
        if (on instanceof CogroupedKStream group) {
            return store == null ? group.aggregate(initial, named) : group.aggregate(initial, named, store);
        }
        if (on instanceof TimeWindowedCogroupedKStream group) {
            return store == null ? group.aggregate(initial, named) : group.aggregate(initial, named, store);
        }
        SessionWindowedCogroupedKStream group = (SessionWindowedCogroupedKStream) on;
        return store == null
                ? group.aggregate(initial, merger, named)
                : group.aggregate(initial, merger, named, store);
    }
}
