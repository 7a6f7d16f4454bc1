import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;

/**
 * Prints Kafka's metadata hashes. A line of stdin is a group: topics separated by ";", each of them
 * name,id (msb.lsb),racks of each partition ("/" between partitions, "+" between racks). An answer is the hash of each
 * topic and that of the group.
 */
public class KafkaMetadataHashes {
    record Topic(String name, Uuid id, List<List<String>> racks) implements CoordinatorMetadataImage.TopicMetadata {
        public int partitionCount() {
            return racks.size();
        }

        public List<String> partitionRacks(int partition) {
            return new ArrayList<>(racks.get(partition));
        }
    }

    record Image(Map<String, Topic> topics) implements CoordinatorMetadataImage {
        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        public Set<String> topicNames() {
            return topics.keySet();
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(topics.get(name));
        }

        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            throw new UnsupportedOperationException();
        }

        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        public long version() {
            return 0;
        }

        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }

    static Topic topic(String text) {
        String[] parts = text.split(",", -1);
        String[] id = parts[1].split("\\.");
        List<List<String>> racks = new ArrayList<>();
        for (String partition : parts[2].split("/", -1)) {
            racks.add(partition.isEmpty() ? List.of() : Arrays.asList(partition.split("\\+")));
        }
        return new Topic(parts[0], new Uuid(Long.parseLong(id[0]), Long.parseLong(id[1])), racks);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            Map<String, Topic> topics = new HashMap<>();
            List<String> names = new ArrayList<>();
            for (String text : line.isEmpty() ? new String[0] : line.split(";")) {
                Topic topic = topic(text);
                topics.put(topic.name(), topic);
                names.add(topic.name());
            }
            Map<String, Long> hashes = new HashMap<>();
            StringBuilder answer = new StringBuilder();
            for (String name : names) {
                long hash = Utils.computeTopicHash(name, new Image(topics));
                hashes.put(name, hash);
                answer.append(hash).append(" ");
            }
            out.println(answer.append(Utils.computeGroupHash(hashes)));
        }
    }
}
