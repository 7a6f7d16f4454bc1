/* Changes of values by users' own classes: a processor that keeps keys, with a store of rows, and a transformer of tables.
 */

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;

final class StreamsValues implements FixedKeyProcessor<Object, Object, Object> {
    private final JsonNode call;
    private FixedKeyProcessorContext<Object, Object> context;
    private KeyValueStore<Object, Object> store;

    StreamsValues(JsonNode call) {
        this.call = call;
    }

    @Override
    public void init(FixedKeyProcessorContext<Object, Object> given) {
        context = given;
        store = context.getStateStore(call.get("stores").get(0).asText());
    }

    @Override
    public void process(FixedKeyRecord<Object, Object> record) {
        Object key = record.key();
        Object row = null;
        if (key != null) {
            row = StreamsFunctions.value(call.get("update"), key, record.value(), store.get(key));
            store.put(key, row);
        }
        context.forward(record.withValue(StreamsFunctions.value(call.get("emit"), key, record.value(), row)));
    }

    static ValueTransformerWithKey<Object, Object, Object> transformer(JsonNode to) {
        return new ValueTransformerWithKey<>() {
            @Override
            public void init(org.apache.kafka.streams.processor.ProcessorContext context) {}

            @Override
            public Object transform(Object key, Object value) {
                return StreamsFunctions.value(to, key, value, null);
            }

            @Override
            public void close() {}
        };
    }
}
