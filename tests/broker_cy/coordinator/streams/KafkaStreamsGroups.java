/* Kafka's own reconciliation of a member of a streams group (CurrentAssignmentBuilder), and its configuration of a
 * topology (InternalTopicManager).
 *
 * Reads a case a line, and answers each with a line. "-" is nothing. A case has these words:
 *   member STATE EPOCH PREVIOUS ASSIGNED REVOKING   tasks are "ACTIVE/STANDBY/WARMUP", each "SUB:NUMBER@EPOCH,...;SUB:..."
 *          TARGET_EPOCH TARGET                      the target assignment, without epochs
 *          HELD                                     tasks that processes have, "ROLE:SUB:NUMBER:PROCESS,..."; ours is p
 *          OWNED                                    tasks that the member reports; "?" if it does not
 *   The answer is the first five words of the new member, or "fenced".
 *   topology TOPICS SUBTOPOLOGY...                  topics are "NAME=COUNT,..."; a subtopology has five parts between "|":
 *          sources, changelogs, sinks, repartition sources "NAME=COUNT,...", copartition groups "0,1+2;..." of indexes
 *   The answer is "invalid", "failed", or the status, the tasks of each subtopology, and the missing topics.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.FencedMemberEpochException;
import org.apache.kafka.common.errors.StreamsInvalidTopologyException;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.CurrentAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.MemberState;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.helpers.NOPLogger;

public class KafkaStreamsGroups {
    static String[] split(String text, String by) { return text.equals("-") ? new String[0] : text.split(by); }

    // ---- members ----

    static Map<String, Map<Integer, Integer>> held(String text) {
        Map<String, Map<Integer, Integer>> found = new TreeMap<>();
        for (String each : split(text, ";")) {
            String[] parts = each.split(":");
            Map<Integer, Integer> epochs = new TreeMap<>();
            for (String pair : parts[1].split(",")) {
                String[] numbers = pair.split("@");
                epochs.put(Integer.parseInt(numbers[0]), numbers.length > 1 ? Integer.parseInt(numbers[1]) : 0);
            }
            found.put(parts[0], epochs);
        }
        return found;
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        held(text).forEach((subtopology, epochs) -> found.put(subtopology, new TreeSet<>(epochs.keySet())));
        return found;
    }

    static TasksTupleWithEpochs withEpochs(String text) {
        String[] roles = text.split("/");
        return new TasksTupleWithEpochs(held(roles[0]), tasks(roles[1]), tasks(roles[2]));
    }

    static TasksTuple tuple(String text) {
        String[] roles = text.split("/");
        return new TasksTuple(tasks(roles[0]), tasks(roles[1]), tasks(roles[2]));
    }

    static String text(TasksTupleWithEpochs tasks) {
        StringJoiner active = new StringJoiner(";").setEmptyValue("-");
        new TreeMap<>(tasks.activeTasksWithEpochs()).forEach((subtopology, epochs) -> {
            StringJoiner pairs = new StringJoiner(",");
            new TreeMap<>(epochs).forEach((number, epoch) -> pairs.add(number + "@" + epoch));
            active.add(subtopology + ":" + pairs);
        });
        return active + "/" + plain(tasks.standbyTasks()) + "/" + plain(tasks.warmupTasks());
    }

    static String plain(Map<String, Set<Integer>> tasks) {
        StringJoiner found = new StringJoiner(";").setEmptyValue("-");
        new TreeMap<>(tasks).forEach((subtopology, numbers) -> {
            StringJoiner parts = new StringJoiner(",");
            new TreeSet<>(numbers).forEach(number -> parts.add(Integer.toString(number)));
            found.add(subtopology + ":" + parts);
        });
        return found.toString();
    }

    static String member(String[] words) {
        StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults("m")
            .setProcessId("p")
            .setState(MemberState.valueOf(words[1]))
            .setMemberEpoch(Integer.parseInt(words[2]))
            .setPreviousMemberEpoch(Integer.parseInt(words[3]))
            .setAssignedTasks(withEpochs(words[4]))
            .setTasksPendingRevocation(withEpochs(words[5]))
            .build();
        Map<String, Set<String>> processes = new TreeMap<>();
        for (String each : split(words[8], ",")) {
            String task = each.substring(0, each.lastIndexOf(':'));
            processes.computeIfAbsent(task, __ -> new TreeSet<>()).add(each.substring(each.lastIndexOf(':') + 1));
        }
        try {
            StreamsGroupMember next = new CurrentAssignmentBuilder(member)
                .withTargetAssignment(Integer.parseInt(words[6]), tuple(words[7]))
                .withCurrentActiveTaskProcessId((subtopology, number) ->
                    processes.getOrDefault("active:" + subtopology + ":" + number, Set.of()).stream().findFirst().orElse(null))
                .withCurrentStandbyTaskProcessIds((subtopology, number) ->
                    processes.getOrDefault("standby:" + subtopology + ":" + number, Set.of()))
                .withCurrentWarmupTaskProcessIds((subtopology, number) ->
                    processes.getOrDefault("warmup:" + subtopology + ":" + number, Set.of()))
                .withOwnedAssignment(words[9].equals("?") ? null : tuple(words[9]))
                .build();
            return next.state().name() + " " + next.memberEpoch() + " " + next.previousMemberEpoch() + " "
                + text(next.assignedTasks()) + " " + text(next.tasksPendingRevocation());
        } catch (FencedMemberEpochException e) {
            return "fenced";
        }
    }

    // ---- topologies ----

    static final class Topics implements CoordinatorMetadataImage {
        record Topic(String name, Uuid id, int partitionCount) implements TopicMetadata {
            public List<String> partitionRacks(int partition) { return List.of(); }
        }

        private final Map<String, TopicMetadata> topics = new TreeMap<>();

        Topics(String text) {
            for (String each : split(text, ",")) {
                String[] parts = each.split("=");
                topics.put(parts[0], new Topic(parts[0], Uuid.ZERO_UUID, Integer.parseInt(parts[1])));
            }
        }

        public Set<Uuid> topicIds() { throw new UnsupportedOperationException(); }
        public Set<String> topicNames() { return topics.keySet(); }
        public Optional<TopicMetadata> topicMetadata(String name) { return Optional.ofNullable(topics.get(name)); }
        public Optional<TopicMetadata> topicMetadata(Uuid id) { throw new UnsupportedOperationException(); }
        public CoordinatorMetadataDelta emptyDelta() { throw new UnsupportedOperationException(); }
        public long version() { return 1; }
        public boolean isEmpty() { return false; }
    }

    static List<Short> indexes(String text) {
        List<Short> found = new ArrayList<>();
        for (String each : split(text, ",")) found.add(Short.parseShort(each));
        return found;
    }

    static List<StreamsGroupTopologyValue.TopicInfo> infos(String text) {
        List<StreamsGroupTopologyValue.TopicInfo> found = new ArrayList<>();
        for (String each : split(text, ",")) {
            String[] parts = each.split("=");
            found.add(new StreamsGroupTopologyValue.TopicInfo().setName(parts[0])
                .setPartitions(parts.length > 1 ? Integer.parseInt(parts[1]) : 0));
        }
        return found;
    }

    static String topology(String[] words) {
        Map<String, StreamsGroupTopologyValue.Subtopology> subtopologies = new TreeMap<>();
        for (int number = 2; number < words.length; number++) {
            String[] parts = words[number].split("\\|");
            List<StreamsGroupTopologyValue.CopartitionGroup> groups = new ArrayList<>();
            for (String group : split(parts[4], ";")) {
                String[] sides = group.split("\\+");
                groups.add(new StreamsGroupTopologyValue.CopartitionGroup()
                    .setSourceTopics(indexes(sides[0])).setRepartitionSourceTopics(indexes(sides[1])));
            }
            String id = Integer.toString(number - 2);
            subtopologies.put(id, new StreamsGroupTopologyValue.Subtopology()
                .setSubtopologyId(id)
                .setSourceTopics(Arrays.asList(split(parts[0], ",")))
                .setStateChangelogTopics(infos(parts[1]))
                .setRepartitionSinkTopics(Arrays.asList(split(parts[2], ",")))
                .setRepartitionSourceTopics(infos(parts[3]))
                .setCopartitionGroups(groups));
        }
        try {
            ConfiguredTopology found = InternalTopicManager.configureTopics(NOPLogger.NOP_LOGGER, "g", "m", 0L,
                new StreamsTopology(0, subtopologies), new Topics(words[1]), Time.SYSTEM);
            StringJoiner tasks = new StringJoiner(",").setEmptyValue("-");
            found.subtopologies().ifPresent(each -> each.forEach((id, one) -> tasks.add(id + ":" + one.numberOfTasks())));
            StringJoiner missing = new StringJoiner(",").setEmptyValue("-");
            for (CreatableTopic topic : new TreeMap<>(found.internalTopicsToBeCreated()).values()) {
                missing.add(topic.name() + "=" + topic.numPartitions());
            }
            String status = found.topicConfigurationException().map(e -> e.status().name()).orElse("READY");
            return status + " " + tasks + " " + missing;
        } catch (StreamsInvalidTopologyException e) {
            return "invalid";
        } catch (RuntimeException e) {
            return "failed";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            answers.append(words[0].equals("member") ? member(words) : topology(words)).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }
}
