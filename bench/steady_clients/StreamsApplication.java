import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;

/** The applications of bench/specs/streams in Java: StreamsApplication BOOTSTRAP APPLICATION_ID KIND STATE_DIR COMMIT_MS */
public class StreamsApplication {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("state.dir", arguments[3]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("commit.interval.ms", arguments[4]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("replication.factor", "1");
        String input = System.getenv().getOrDefault("STREAMS_IN", "in");
        String output = System.getenv().getOrDefault("STREAMS_OUT", "out");
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()));
        if (arguments[2].equals("filter")) {
            records.mapValues(value -> value.toUpperCase())
                .filter((key, value) -> !"key-1".equals(key))
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        } else if (arguments[2].equals("state")) {
            records.groupByKey().reduce(
                (before, now) -> now,
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("state")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(Serdes.String())
                    .withCachingDisabled());
        } else {
            records.groupByKey()
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
                .count()
                .toStream()
                .map((window, count) -> KeyValue.pair(window.key(), count))
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }
}
