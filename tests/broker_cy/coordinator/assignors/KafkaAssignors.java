/* Kafka's own assignors, and the group that they assign to.
 *
 * Reads a command a line; each that assigns is answered with a line. Sets are "1,2", partitions "TOPIC:1,2;TOPIC:3",
 * and "-" is nothing.
 *   new                                   another group
 *   topic ID LSB COUNT ASSIGNABLE         a topic with an id of (ID, LSB); ASSIGNABLE are the partitions of share groups
 *   member ID INSTANCE TOPICS             a member comes, or subscribes again
 *   hold ID PARTITIONS                    set the target assignment of a member
 *   leave ID
 *   assign uniform|range|simple           answer: ID=PARTITIONS of each member
 *   subtopology ID COUNT stateful|stateless
 *   client ID PROCESS                     a member of a streams group comes
 *   tasks ID ACTIVE STANDBY               set its target assignment
 *   sticky STANDBYS                       answer: ID=ACTIVE/STANDBY/WARMUP of each client
 *
 * Members, topics and partitions are given to the assignors in the order of the commands or ascending, so that the
 * results do not depend on the order of hash tables.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

public class KafkaAssignors {
    record Topic(Uuid id, int count, Set<Integer> assignable) { }

    record Member(Optional<String> instance, Set<String> topics) { }

    record Subtopology(int count, boolean stateful) { }

    static final Map<String, PartitionAssignor> ASSIGNORS = Map.of(
        "uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    final Map<String, Topic> topics = new TreeMap<>();
    final Map<Uuid, String> names = new LinkedHashMap<>();
    final Map<String, Member> members = new LinkedHashMap<>();
    final Map<String, Map<String, Set<Integer>>> targets = new LinkedHashMap<>();
    final Map<String, Subtopology> subtopologies = new TreeMap<>();
    final Map<String, String> clients = new LinkedHashMap<>();
    final Map<String, List<Map<String, Set<Integer>>>> tasks = new LinkedHashMap<>();

    static Set<Integer> numbers(String text) {
        Set<Integer> found = new TreeSet<>();
        if (!text.equals("-")) for (String each : text.split(",")) found.add(Integer.parseInt(each));
        return found;
    }

    static Map<String, Set<Integer>> partitions(String text) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        if (!text.equals("-")) {
            for (String each : text.split(";")) {
                found.put(each.substring(0, each.indexOf(':')), numbers(each.substring(each.indexOf(':') + 1)));
            }
        }
        return found;
    }

    static String text(Map<String, Set<Integer>> partitions) {
        StringJoiner joined = new StringJoiner(";");
        joined.setEmptyValue("-");
        partitions.forEach((topic, numbers) -> {
            StringJoiner each = new StringJoiner(",");
            numbers.forEach(number -> each.add(number.toString()));
            joined.add(topic + ":" + each);
        });
        return joined.toString();
    }

    Map<Uuid, Set<Integer>> byId(Map<String, Set<Integer>> partitions) {
        Map<Uuid, Set<Integer>> found = new LinkedHashMap<>();
        partitions.forEach((topic, numbers) -> found.put(topics.get(topic).id(), numbers));
        return found;
    }

    Uuid known(String topic) { return topics.get(topic).id(); }

    String assign(String name) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new LinkedHashMap<>();
        Map<Uuid, Set<Integer>> assignable = new LinkedHashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        topics.values().forEach(topic -> assignable.put(topic.id(), topic.assignable()));
        members.forEach((id, member) -> {
            Set<Uuid> subscribed = new LinkedHashSet<>();
            member.topics().forEach(topic -> subscribed.add(known(topic)));
            Map<Uuid, Set<Integer>> held = byId(targets.getOrDefault(id, Map.of()));
            held.forEach((topic, each) -> each.forEach(
                number -> owners.computeIfAbsent(topic, any -> new LinkedHashMap<>()).put(number, id)));
            subscriptions.add(member.topics());
            specs.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), member.instance(), subscribed, new Assignment(held)));
        });
        SubscriptionType type = subscriptions.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupSpecImpl spec = new GroupSpecImpl(Collections.unmodifiableMap(specs), type, owners,
            name.equals("simple") ? Optional.of(assignable) : Optional.empty());
        var result = ASSIGNORS.get(name).assign(spec, new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return topics.get(names.get(id)).count(); }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        });
        StringJoiner answer = new StringJoiner(" ");
        members.forEach((id, member) -> {
            Map<String, Set<Integer>> target = new TreeMap<>();
            if (result.members().containsKey(id)) {
                result.members().get(id).partitions().forEach((topic, numbers) -> {
                    // The simple assignor leaves empty sets, and a topic to which no member subscribes any longer.
                    if (!numbers.isEmpty() && member.topics().contains(names.get(topic))) {
                        target.put(names.get(topic), new TreeSet<>(numbers));
                    }
                });
            }
            targets.put(id, target);
            answer.add(id + "=" + text(target));
        });
        return answer.toString();
    }

    String sticky(String standbys) {
        Map<String, AssignmentMemberSpec> specs = new LinkedHashMap<>();
        clients.forEach((id, process) -> {
            List<Map<String, Set<Integer>>> held = tasks.getOrDefault(id, List.of(Map.of(), Map.of(), Map.of()));
            specs.put(id, new AssignmentMemberSpec(Optional.empty(), Optional.empty(), held.get(0), held.get(1),
                held.get(2), process, Map.of(), Map.of(), Map.of()));
        });
        var result = new StickyTaskAssignor().assign(
            new org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl(
                specs, Map.of("num.standby.replicas", standbys)),
            new TopologyDescriber() {
                public List<String> subtopologies() { return new ArrayList<>(subtopologies.keySet()); }
                public int maxNumInputPartitions(String id) { return subtopologies.get(id).count(); }
                public boolean isStateful(String id) { return subtopologies.get(id).stateful(); }
            });
        StringJoiner answer = new StringJoiner(" ");
        clients.keySet().forEach(id -> {
            MemberAssignment each = result.members().get(id);
            List<Map<String, Set<Integer>>> target = new ArrayList<>();
            for (var part : List.of(each.activeTasks(), each.standbyTasks(), each.warmupTasks())) {
                Map<String, Set<Integer>> sorted = new TreeMap<>();
                part.forEach((subtopology, numbers) -> sorted.put(subtopology, new TreeSet<>(numbers)));
                target.add(sorted);
            }
            tasks.put(id, target);
            answer.add(id + "=" + text(target.get(0)) + "/" + text(target.get(1)) + "/" + text(target.get(2)));
        });
        return answer.toString();
    }

    void change(String[] words) {
        switch (words[0]) {
            case "topic" -> {
                Uuid id = new Uuid(Long.parseLong(words[1]), Long.parseLong(words[2]));
                topics.put(words[1], new Topic(id, Integer.parseInt(words[3]), numbers(words[4])));
                names.put(id, words[1]);
            }
            case "member" -> {
                Set<String> subscribed = new TreeSet<>();
                if (!words[3].equals("-")) Collections.addAll(subscribed, words[3].split(","));
                Optional<String> instance = words[2].equals("-") ? Optional.empty() : Optional.of(words[2]);
                members.put(words[1], new Member(instance, subscribed));
            }
            case "hold" -> targets.put(words[1], partitions(words[2]));
            case "leave" -> {
                members.remove(words[1]);
                targets.remove(words[1]);
                clients.remove(words[1]);
                tasks.remove(words[1]);
            }
            case "subtopology" ->
                subtopologies.put(words[1], new Subtopology(Integer.parseInt(words[2]), words[3].equals("stateful")));
            case "client" -> clients.put(words[1], words[2]);
            case "tasks" -> tasks.put(words[1], List.of(partitions(words[2]), partitions(words[3]), Map.of()));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        KafkaAssignors group = new KafkaAssignors();
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "new" -> group = new KafkaAssignors();
                case "assign" -> answers.append(group.assign(words[1])).append('\n');
                case "sticky" -> answers.append(group.sticky(words[1])).append('\n');
                default -> group.change(words);
            }
        }
        System.out.write(answers.toString().getBytes("UTF-8"));
        System.out.flush();
    }
}
