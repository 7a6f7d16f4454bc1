import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes and reads records of an Avro schema with Confluent's serializers. `read` prints the records as a JSON list of
 * [id, item, count].
 *
 * <pre>
 * RegistryClient write REGISTRY BOOTSTRAP TOPIC SCHEMA ITEM COUNT
 * RegistryClient read REGISTRY BOOTSTRAP TOPIC RECORDS
 * </pre>
 */
public class RegistryClient {
  public static void main(String[] words) throws Exception {
    Map<String, Object> registry = Map.of("schema.registry.url", words[1]);
    if (words[0].equals("write")) {
      write(registry, words);
    } else {
      read(registry, words[2], words[3], Integer.parseInt(words[4]));
    }
  }

  private static void write(Map<String, Object> registry, String[] words) throws Exception {
    String topic = words[3];
    GenericRecord order = new GenericData.Record(new Schema.Parser().parse(words[4]));
    order.put("item", words[5]);
    order.put("count", Integer.parseInt(words[6]));
    Map<String, Object> settings = Map.of("bootstrap.servers", words[2]);
    try (KafkaAvroSerializer serializer = new KafkaAvroSerializer();
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
      serializer.configure(registry, false);
      producer.send(new ProducerRecord<>(topic, serializer.serialize(topic, order))).get();
    }
  }

  private static void read(Map<String, Object> registry, String bootstrap, String topic, int wanted) {
    List<String> found = new ArrayList<>();
    Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
    try (KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer();
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      deserializer.configure(registry, false);
      List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      while (found.size() < wanted) {
        for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofSeconds(1))) {
          GenericRecord order = (GenericRecord) deserializer.deserialize(topic, each.value());
          int id = ByteBuffer.wrap(each.value(), 1, Integer.BYTES).getInt();
          found.add("[" + id + ",\"" + order.get("item") + "\"," + order.get("count") + "]");
        }
      }
    }
    System.out.println("[" + String.join(",", found) + "]");
  }
}
