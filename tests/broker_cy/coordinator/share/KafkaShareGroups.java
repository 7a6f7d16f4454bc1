import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.DeleteShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.ShareGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ShareGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.generated.ShareGroupCurrentMemberAssignmentValue;
import org.apache.kafka.coordinator.group.generated.ShareGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.generated.ShareGroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.ShareGroupStatePartitionMetadataValue;
import org.apache.kafka.coordinator.group.generated.ShareGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.ShareGroupTargetAssignmentMetadataValue;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Runs the commands of test_groups_like_kafka.py on Kafka's group coordinator, and prints one answer for each. */
public final class KafkaShareGroups {
    private static final String GROUP = "g";

    private final Map<String, Topic> topics = new TreeMap<>();
    private final Map<String, Timer> timers = new TreeMap<>();
    private long nowMs;
    private long nextOffset;
    private GroupCoordinatorShard shard;
    private Map<Uuid, Set<Integer>> asked = Map.of();

    record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            // It is sorted in place.
            return new ArrayList<>();
        }
    }

    record Timer(long dueMs, CoordinatorTimer.TimeoutOperation<CoordinatorRecord> operation) { }

    public static void main(String[] args) throws Exception {
        KafkaShareGroups all = new KafkaShareGroups();
        PrintWriter out = new PrintWriter(System.out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(all.run(line.split(" ")));
        }
        out.flush();
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                renew(words[1]);
                return "";
            case "time":
                advance(Long.parseLong(words[1]));
                return "";
            case "topic":
                return changed(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "gone":
                return gone(words[1]);
            case "beat":
                return orError(() -> beat(words));
            case "done":
                return taken(shard.initializeShareGroupState(GROUP, takeAsked()));
            case "fail":
                return taken(shard.uninitializeShareGroupState(GROUP, takeAsked()));
            case "alter":
                return orError(() -> alter(words));
            case "forget":
                return forget(Arrays.asList(words).subList(1, words.length));
            case "delete":
                taken(shard.sharePartitionDeleteRequests(List.of(GROUP)));
                var result = shard.deleteGroups(context(), List.of(GROUP));
                taken(result);
                return "" + result.response().find(GROUP).errorCode();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String orError(Supplier<String> command) {
        try {
            return command.get();
        } catch (ApiException error) {
            return "" + Errors.forException(error).code();
        }
    }

    private Map<Uuid, Set<Integer>> takeAsked() {
        Map<Uuid, Set<Integer>> found = asked;
        asked = Map.of();
        return found;
    }

    // ---- the coordinator ----

    private void renew(String intervalMs) {
        topics.clear();
        timers.clear();
        nowMs = 1_700_000_000_000L;
        nextOffset = 0;
        LogContext context = new LogContext();
        Map<String, String> props = Map.of(
            "group.share.max.size", "4", "group.share.assignment.interval.ms", intervalMs);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(props);
        shard = new GroupCoordinatorShard.Builder(
            config, new GroupConfigManager(Map.of(), config, ShareGroupConfig.fromProps(props)))
            .withAuthorizerPlugin(Optional.empty())
            .withLogContext(context)
            .withSnapshotRegistry(new SnapshotRegistry(context))
            .withTime(clock())
            .withTimer(timer())
            .withExecutor(executor())
            .withCoordinatorMetrics(new GroupCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0))
            .build();
        shard.onLoaded(image(topics));
    }

    private void advance(long ms) {
        while (true) {
            Optional<Map.Entry<String, Timer>> next = timers.entrySet().stream()
                .filter(each -> each.getKey().contains("session") && each.getValue().dueMs <= ms)
                .min(Map.Entry.comparingByValue((a, b) -> Long.compare(a.dueMs, b.dueMs)));
            if (next.isEmpty()) {
                break;
            }
            // The entry of a tree changes when it is removed.
            Timer timer = next.get().getValue();
            timers.remove(next.get().getKey());
            nowMs = Math.max(nowMs, timer.dueMs);
            taken(timer.operation.generateRecords());
        }
        nowMs = ms;
    }

    private String changed(String name, int number, int count) {
        Topic topic = new Topic(name, new Uuid(0, number), count);
        boolean isNew = topics.put(name, topic) == null;
        Set<Uuid> id = Set.of(topic.id);
        CoordinatorMetadataImage image = image(new TreeMap<>(topics));
        shard.onMetadataUpdate(delta(isNew ? id : Set.of(), id, Set.of(), image), image);
        return "";
    }

    private String gone(String name) {
        CoordinatorMetadataImage before = image(new TreeMap<>(topics));
        Topic topic = topics.remove(name);
        shard.onMetadataUpdate(delta(Set.of(), Set.of(), Set.of(topic.id), before), image(new TreeMap<>(topics)));
        return taken(shard.maybeCleanupShareGroupState(Set.of(topic.id)));
    }

    // ---- requests ----

    private String beat(String[] words) {
        var request = new ShareGroupHeartbeatRequestData().setGroupId(GROUP).setMemberId(words[1])
            .setMemberEpoch(Integer.parseInt(words[2]));
        if (!words[3].equals("-")) {
            request.setSubscribedTopicNames(words[3].equals("none") ? List.of() : List.of(words[3].split(",")));
        }
        var result = shard.shareGroupHeartbeat(context(), request);
        ShareGroupHeartbeatResponseData answer = result.response().getKey();
        String records = taken(result);
        Optional<InitializeShareGroupStateParameters> next = result.response().getValue();
        String wanted = "nothing";
        if (next.isPresent()) {
            asked = new HashMap<>();
            next.get().groupTopicPartitionData().topicsData().forEach(topic -> asked.put(topic.topicId(),
                topic.partitions().stream().map(each -> each.partition()).collect(Collectors.toSet())));
            int epoch = next.get().groupTopicPartitionData().topicsData().get(0).partitions().get(0).stateEpoch();
            wanted = epoch + "@" + text(asked);
        }
        String assignment = "-";
        if (answer.assignment() != null) {
            Map<Uuid, Collection<Integer>> found = new HashMap<>();
            answer.assignment().topicPartitions().forEach(each -> found.put(each.topicId(), each.partitions()));
            assignment = text(found);
        }
        return answer.memberEpoch() + " " + assignment + " " + wanted + " " + records;
    }

    private String alter(String[] words) {
        var collection = new AlterShareGroupOffsetsRequestData.AlterShareGroupOffsetsRequestTopicCollection();
        var topic = new AlterShareGroupOffsetsRequestData.AlterShareGroupOffsetsRequestTopic().setTopicName(words[1]);
        List<AlterShareGroupOffsetsRequestData.AlterShareGroupOffsetsRequestPartition> partitions = new ArrayList<>();
        for (String each : words[2].split(",")) {
            partitions.add(new AlterShareGroupOffsetsRequestData.AlterShareGroupOffsetsRequestPartition()
                .setPartitionIndex(Integer.parseInt(each)).setStartOffset(5));
        }
        collection.add(topic.setPartitions(partitions));
        var result = shard.alterShareGroupOffsets(
            GROUP, new AlterShareGroupOffsetsRequestData().setGroupId(GROUP).setTopics(collection));
        String records = taken(result);
        asked = new HashMap<>();
        result.response().getValue().groupTopicPartitionData().topicsData().forEach(each -> asked.put(each.topicId(),
            each.partitions().stream().map(part -> part.partition()).collect(Collectors.toSet())));
        StringJoiner codes = new StringJoiner(",");
        result.response().getKey().responses().forEach(each -> each.partitions().forEach(
            part -> codes.add(part.partitionIndex() + ":" + part.errorCode())));
        return codes + " " + records;
    }

    private String forget(List<String> names) {
        var result = shard.initiateDeleteShareGroupOffsets(GROUP, new DeleteShareGroupOffsetsRequestData()
            .setGroupId(GROUP)
            .setTopics(names.stream().map(
                name -> new DeleteShareGroupOffsetsRequestData.DeleteShareGroupOffsetsRequestTopic().setTopicName(name)
            ).toList()));
        var found = result.response();
        if (found.topLevelErrorCode() != 0) {
            return "" + found.topLevelErrorCode();
        }
        String records = taken(result);
        Map<String, Integer> codes = new TreeMap<>();
        names.forEach(name -> codes.put(name, 0));
        found.errorTopicResponseList().forEach(each -> codes.put(each.topicName(), (int) each.errorCode()));
        Map<Uuid, String> done = new HashMap<>();
        codes.forEach((name, code) -> {
            if (code == 0) {
                done.put(topics.get(name).id, name);
            }
        });
        String last = done.isEmpty() ? "" : taken(shard.completeDeleteShareGroupOffsets(GROUP, done, List.of()));
        return codes + " " + (done.isEmpty() ? "" : records + " then " + last);
    }

    // ---- texts ----

    private String taken(CoordinatorResult<?, CoordinatorRecord> result) {
        List<String> found = new ArrayList<>();
        for (CoordinatorRecord record : result.records()) {
            shard.replay(nextOffset++, -1L, (short) -1, record);
            found.add(record.key().apiKey() + "=" + (record.value() == null ? "-" : text(record.value().message())));
        }
        found.sort(null);
        return found.toString();
    }

    private static String text(Object value) {
        if (value instanceof ShareGroupMemberMetadataValue member) {
            return member.clientId() + "/" + member.clientHost() + "/" + member.subscribedTopicNames();
        } else if (value instanceof ShareGroupMetadataValue group) {
            return group.epoch() + "/" + group.metadataHash();
        } else if (value instanceof ShareGroupTargetAssignmentMetadataValue target) {
            return target.assignmentEpoch() + "/" + target.assignmentTimestamp();
        } else if (value instanceof ShareGroupTargetAssignmentMemberValue target) {
            Map<Uuid, Collection<Integer>> found = new HashMap<>();
            target.topicPartitions().forEach(each -> found.put(each.topicId(), each.partitions()));
            return text(found);
        } else if (value instanceof ShareGroupCurrentMemberAssignmentValue current) {
            Map<Uuid, Collection<Integer>> found = new HashMap<>();
            current.assignedPartitions().forEach(each -> found.put(each.topicId(), each.partitions()));
            return current.memberEpoch() + "/" + current.previousMemberEpoch() + "/" + current.state() + "/" + text(found);
        }
        ShareGroupStatePartitionMetadataValue state = (ShareGroupStatePartitionMetadataValue) value;
        Set<Long> deleting = new TreeSet<>();
        state.deletingTopics().forEach(each -> deleting.add(each.topicId().getLeastSignificantBits()));
        return text(infos(state.initializingTopics())) + "/" + text(infos(state.initializedTopics())) + "/" + deleting;
    }

    private static Map<Uuid, Collection<Integer>> infos(
        List<ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo> infos
    ) {
        Map<Uuid, Collection<Integer>> found = new HashMap<>();
        infos.forEach(each -> found.put(each.topicId(), each.partitions()));
        return found;
    }

    /** Partitions by the lower part of the topic id; topics without any count for nothing. */
    private static String text(Map<Uuid, ? extends Collection<Integer>> partitions) {
        Map<Long, Set<Integer>> found = new TreeMap<>();
        partitions.forEach((id, each) -> {
            if (!each.isEmpty()) {
                found.put(id.getLeastSignificantBits(), new TreeSet<>(each));
            }
        });
        return found.toString().replace(" ", "");
    }

    // ---- the surroundings ----

    private static CoordinatorMetadataImage image(Map<String, Topic> topics) {
        return new CoordinatorMetadataImage() {
            @Override
            public Set<Uuid> topicIds() {
                return topics.values().stream().map(Topic::id).collect(Collectors.toSet());
            }

            @Override
            public Set<String> topicNames() {
                return topics.keySet();
            }

            @Override
            public Optional<TopicMetadata> topicMetadata(String name) {
                return Optional.ofNullable(topics.get(name));
            }

            @Override
            public Optional<TopicMetadata> topicMetadata(Uuid id) {
                return topics.values().stream().filter(each -> each.id.equals(id)).map(each -> (TopicMetadata) each)
                    .findFirst();
            }

            @Override
            public CoordinatorMetadataDelta emptyDelta() {
                return CoordinatorMetadataDelta.EMPTY;
            }

            @Override
            public long version() {
                return 1;
            }

            @Override
            public boolean isEmpty() {
                return false;
            }
        };
    }

    private static CoordinatorMetadataDelta delta(
        Set<Uuid> created, Set<Uuid> changed, Set<Uuid> deleted, CoordinatorMetadataImage image
    ) {
        return new CoordinatorMetadataDelta() {
            @Override
            public Collection<Uuid> createdTopicIds() {
                return created;
            }

            @Override
            public Collection<Uuid> changedTopicIds() {
                return changed;
            }

            @Override
            public Set<Uuid> deletedTopicIds() {
                return deleted;
            }

            @Override
            public CoordinatorMetadataImage image() {
                return image;
            }
        };
    }

    private CoordinatorTimer<CoordinatorRecord> timer() {
        return new CoordinatorTimer<>() {
            @Override
            public void schedule(
                String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation
            ) {
                timers.put(key, new Timer(nowMs + unit.toMillis(delay), operation));
            }

            @Override
            public void schedule(
                String key, long delay, TimeUnit unit, boolean retry, long backoff,
                TimeoutOperation<CoordinatorRecord> operation
            ) {
                schedule(key, delay, unit, retry, operation);
            }

            @Override
            public void scheduleIfAbsent(
                String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<CoordinatorRecord> operation
            ) {
                if (!timers.containsKey(key)) {
                    schedule(key, delay, unit, retry, operation);
                }
            }

            @Override
            public void cancel(String key) {
                timers.remove(key);
            }

            @Override
            public boolean isScheduled(String key) {
                return timers.containsKey(key);
            }
        };
    }

    private static CoordinatorExecutor<CoordinatorRecord> executor() {
        return new CoordinatorExecutor<>() {
            @Override
            public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
                throw new UnsupportedOperationException();
            }

            @Override
            public boolean isScheduled(String key) {
                return false;
            }

            @Override
            public void cancel(String key) { }
        };
    }

    private Time clock() {
        return (Time) java.lang.reflect.Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, arguments) -> switch (method.getName()) {
                case "milliseconds", "hiResClockMs" -> nowMs;
                case "nanoseconds" -> nowMs * 1_000_000;
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }

    private static AuthorizableRequestContext context() {
        InetAddress address = InetAddress.getLoopbackAddress();
        return (AuthorizableRequestContext) java.lang.reflect.Proxy.newProxyInstance(
            AuthorizableRequestContext.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "clientId" -> "client";
                case "clientAddress" -> InetAddress.getByAddress(address.getAddress());
                case "principal" -> KafkaPrincipal.ANONYMOUS;
                case "securityProtocol" -> SecurityProtocol.PLAINTEXT;
                default -> throw new UnsupportedOperationException(method.getName());
            });
    }
}
