/* Kafka's own reconciliation of a member of a consumer group: CurrentAssignmentBuilder.
 *
 * Reads a case a line, and answers each with a line. A case has these words:
 *   STATE EPOCH PREVIOUS ASSIGNED REVOKING   the member; partitions are "TOPIC:NUMBER@EPOCH,NUMBER@EPOCH;TOPIC:..."
 *   TARGET_EPOCH TARGET TOPICS               the target assignment, "TOPIC:NUMBER,NUMBER;...", and what it subscribes to
 *   HELD                                     partitions that any member holds
 *   OWNED                                    partitions that the member reports; "?" if it does not
 *   changed|same                             whether its subscription has changed
 * "-" is nothing. The answer is the first five words of the new member, or "fenced".
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.FencedMemberEpochException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData.TopicPartitions;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;

public class KafkaReconciliation {
    static Uuid id(String topic) { return new Uuid(Long.parseLong(topic), 0); }

    static final class AllTopics implements CoordinatorMetadataImage {
        record Topic(String name, Uuid id) implements TopicMetadata {
            public int partitionCount() { return 100; }
            public List<String> partitionRacks(int partition) { return List.of(); }
        }

        public Set<Uuid> topicIds() { throw new UnsupportedOperationException(); }
        public Set<String> topicNames() { throw new UnsupportedOperationException(); }
        public Optional<TopicMetadata> topicMetadata(String name) { return Optional.of(new Topic(name, KafkaReconciliation.id(name))); }
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(new Topic(Long.toString(id.getMostSignificantBits()), id));
        }
        public CoordinatorMetadataDelta emptyDelta() { throw new UnsupportedOperationException(); }
        public long version() { return 1; }
        public boolean isEmpty() { return false; }
    }

    static Map<Uuid, Map<Integer, Integer>> held(String text) {
        Map<Uuid, Map<Integer, Integer>> found = new TreeMap<>();
        if (text.equals("-")) return found;
        for (String each : text.split(";")) {
            String[] parts = each.split(":");
            Map<Integer, Integer> epochs = new TreeMap<>();
            for (String pair : parts[1].split(",")) {
                String[] numbers = pair.split("@");
                epochs.put(Integer.parseInt(numbers[0]), Integer.parseInt(numbers[1]));
            }
            found.put(id(parts[0]), epochs);
        }
        return found;
    }

    static Map<Uuid, Set<Integer>> partitions(String text) {
        Map<Uuid, Set<Integer>> found = new TreeMap<>();
        if (text.equals("-")) return found;
        for (String each : text.split(";")) {
            String[] parts = each.split(":");
            Set<Integer> numbers = new TreeSet<>();
            for (String number : parts[1].split(",")) numbers.add(Integer.parseInt(number));
            found.put(id(parts[0]), numbers);
        }
        return found;
    }

    static String text(Map<Uuid, Map<Integer, Integer>> held) {
        StringJoiner topics = new StringJoiner(";");
        topics.setEmptyValue("-");
        new TreeMap<>(held).forEach((topic, epochs) -> {
            StringJoiner pairs = new StringJoiner(",");
            new TreeMap<>(epochs).forEach((number, epoch) -> pairs.add(number + "@" + epoch));
            topics.add(topic.getMostSignificantBits() + ":" + pairs);
        });
        return topics.toString();
    }

    static String answer(String[] words) {
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("m")
            .setState(MemberState.valueOf(words[0]))
            .setMemberEpoch(Integer.parseInt(words[1]))
            .setPreviousMemberEpoch(Integer.parseInt(words[2]))
            .setAssignedPartitions(held(words[3]))
            .setPartitionsPendingRevocation(held(words[4]))
            .setSubscribedTopicNames(words[7].equals("-") ? List.of() : List.of(words[7].split(",")))
            .build();
        Map<Uuid, Set<Integer>> anyones = partitions(words[8]);
        List<TopicPartitions> owned = null;
        if (!words[9].equals("?")) {
            List<TopicPartitions> reported = new ArrayList<>();
            partitions(words[9]).forEach((topic, numbers) -> reported.add(
                new TopicPartitions().setTopicId(topic).setPartitions(new ArrayList<>(numbers))));
            owned = reported;
        }
        try {
            ConsumerGroupMember next = new CurrentAssignmentBuilder(member)
                .withMetadataImage(new AllTopics())
                .withTargetAssignment(Integer.parseInt(words[5]), new Assignment(partitions(words[6])))
                .withHasSubscriptionChanged(words[10].equals("changed"))
                .withCurrentPartitionEpoch(
                    (topic, number) -> anyones.getOrDefault(topic, Set.of()).contains(number) ? 1 : -1)
                .withOwnedTopicPartitions(owned)
                .build();
            return next.state().name() + " " + next.memberEpoch() + " " + next.previousMemberEpoch() + " "
                + text(next.assignedPartitions()) + " " + text(next.partitionsPendingRevocation());
        } catch (FencedMemberEpochException e) {
            return "fenced";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }
}
