import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * BOOTSTRAP IN OUT STATE PROTOCOL: counts the records of each key of IN, exactly once, and writes each count to OUT; until stdin
 * ends. Prints `running`, `error TEXT` for an error of a thread (which is replaced), and `done`.
 */
public class Streams {
    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("application.id", "counts");
        settings.put("bootstrap.servers", words[0]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("state.dir", words[3]);
        settings.put("replication.factor", "3");
        settings.put("group.protocol", words[4]);
        // Every count is written, not only the last one of an interval.
        settings.put("statestore.cache.max.bytes", "0");
        var text = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream(words[1], Consumed.with(text, text))
            .groupByKey(Grouped.with(text, text))
            // In memory, so that the native library of RocksDB is not needed; its changelog is a topic.
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("count")).withKeySerde(text).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(words[2], Produced.with(text, text));
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("error " + error.toString().replace('\n', ' '));
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println(now.toString().toLowerCase()));
        streams.start();
        while (System.in.read() >= 0) {
        }
        streams.close();
        System.out.println("done");
    }
}
