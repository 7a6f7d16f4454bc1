import java.util.Arrays;
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
 * BOOTSTRAP IN OUT STATE NAME=VALUE...: counts the words of the lines of IN with the streams protocol, and writes each
 * count to OUT; until stdin ends. Prints `running`, `error TEXT` for an error of a thread, and `done`. The last words are
 * settings.
 */
public class WordCount {
    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("application.id", "words");
        settings.put("group.protocol", "streams");
        settings.put("bootstrap.servers", words[0]);
        settings.put("state.dir", words[3]);
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "200");
        settings.put("statestore.cache.max.bytes", "0");
        for (String word : Arrays.copyOfRange(words, 4, words.length)) {
            settings.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
        var text = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream(words[1], Consumed.with(text, text))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("by-word", text, text))
            // In memory, so that the native library of RocksDB is not needed; its changelog is a topic.
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("count")).withKeySerde(text).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(words[2], Produced.with(text, text));
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("error " + error.toString().replace('\n', ' '));
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        // Later states are reported by another thread, also after `done`.
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) System.out.println("running");
        });
        streams.start();
        while (System.in.read() >= 0) {
        }
        streams.close(java.time.Duration.ofSeconds(30));
        System.out.println("done");
    }
}
