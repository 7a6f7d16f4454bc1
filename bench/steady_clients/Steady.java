import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** BOOTSTRAP TOPIC GROUP PARTITIONS: as steady.py, with the Java client in its default settings. */
public class Steady {
    static final AtomicBoolean over = new AtomicBoolean();

    static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
    }

    static long now() {
        var now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    static void read(String bootstrap, String topic, String group) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!over.get()) {
                try {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        say("read " + record.value());
                    }
                } catch (Exception error) {
                    say("error " + error);
                }
            }
        }
    }

    public static void main(String[] words) throws Exception {
        int partitions = Integer.parseInt(words[3]);
        var reader = new Thread(() -> read(words[0], words[1], words[2]));
        if (!words[2].equals("-")) {
            reader.start();
        }
        var waiter = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (java.io.IOException error) {
                say("error " + error);
            }
            over.set(true);
        });
        waiter.setDaemon(true);
        waiter.start();
        Map<String, Object> settings = Map.of("bootstrap.servers", words[0]);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int next = 0; !over.get(); next++) {
                int number = next;
                long sent = now();
                var record = new ProducerRecord<String, String>(words[1], number % partitions, null, "" + number);
                producer.send(record, (found, error) -> say(error == null
                    ? "acked " + number + " " + found.partition() + " " + found.offset() + " " + sent + " " + now()
                    : "failed " + number + " " + error));
                if ((number + 1) % partitions == 0) {
                    Thread.sleep(10);
                }
            }
            producer.flush();
        }
        reader.join();
        say("done");
    }
}
