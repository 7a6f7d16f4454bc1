import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Runs the commands of test_like_kafka.py on Kafka's share coordinator, and prints one answer for each. */
public final class KafkaShareState {
    private static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();

    private final Map<Uuid, Integer> topics = new HashMap<>();
    private long nowMs;
    private long nextOffset;
    private ShareCoordinatorShard shard;

    public static void main(String[] args) throws Exception {
        KafkaShareState all = new KafkaShareState();
        PrintWriter out = new PrintWriter(System.out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(all.run(line.split(" ")));
        }
        out.flush();
    }

    private String run(String[] words) {
        switch (words[0]) {
            case "new":
                renew(words[1]);
                return "";
            case "time":
                nowMs = Long.parseLong(words[1]);
                return "";
            case "topic":
                topics.put(Uuid.fromString(words[1]), Integer.parseInt(words[2]));
                return "";
            case "initialize":
                return initialize(words);
            case "write":
                return write(words);
            case "read":
                return read(words);
            case "summary":
                return summary(words);
            case "delete":
                return delete(words);
            case "cold":
                return "" + taken(shard.snapshotColdPartitions());
            case "gone":
                topics.remove(Uuid.fromString(words[1]));
                return "" + taken(shard.maybeCleanupShareState(Set.of(Uuid.fromString(words[1]))));
            case "redundant":
                return shard.lastRedundantOffset().response().map(String::valueOf).orElse("none");
            case "combine":
                return combine(words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void renew(String updates) {
        LogContext context = new LogContext();
        nextOffset = 0;
        topics.clear();
        shard = new ShareCoordinatorShard.Builder(new ShareCoordinatorConfig(new AbstractConfig(
            ShareCoordinatorConfig.CONFIG_DEF,
            Map.of(ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG, updates), false)))
            .withLogContext(context)
            .withSnapshotRegistry(new SnapshotRegistry(context))
            .withCoordinatorMetrics(new ShareCoordinatorMetrics())
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .withTime(clock())
            .build();
        shard.onLoaded(image());
    }

    private String initialize(String[] words) {
        var result = shard.initializeState(new InitializeShareGroupStateRequestData().setGroupId(words[1]).setTopics(List.of(
            new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(Uuid.fromString(words[2]))
                .setPartitions(List.of(new InitializeShareGroupStateRequestData.PartitionData()
                    .setPartition(Integer.parseInt(words[3]))
                    .setStateEpoch(Integer.parseInt(words[4]))
                    .setStartOffset(Long.parseLong(words[5])))))));
        var answer = result.response().results().get(0).partitions().get(0);
        return answer.errorCode() + "|" + answer.errorMessage() + taken(result);
    }

    private String write(String[] words) {
        var result = shard.writeState(new WriteShareGroupStateRequestData().setGroupId(words[1]).setTopics(List.of(
            new WriteShareGroupStateRequestData.WriteStateData().setTopicId(Uuid.fromString(words[2]))
                .setPartitions(List.of(new WriteShareGroupStateRequestData.PartitionData()
                    .setPartition(Integer.parseInt(words[3]))
                    .setLeaderEpoch(Integer.parseInt(words[4]))
                    .setStateEpoch(Integer.parseInt(words[5]))
                    .setStartOffset(Long.parseLong(words[6]))
                    .setDeliveryCompleteCount(Integer.parseInt(words[7]))
                    .setStateBatches(batches(words[8]).stream().map(
                        batch -> new WriteShareGroupStateRequestData.StateBatch()
                            .setFirstOffset(batch.firstOffset())
                            .setLastOffset(batch.lastOffset())
                            .setDeliveryState(batch.deliveryState())
                            .setDeliveryCount(batch.deliveryCount())).toList()))))));
        var answer = result.response().results().get(0).partitions().get(0);
        return answer.errorCode() + "|" + answer.errorMessage() + taken(result);
    }

    private String read(String[] words) {
        var result = shard.readStateAndMaybeUpdateLeaderEpoch(new ReadShareGroupStateRequestData().setGroupId(words[1])
            .setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData().setTopicId(Uuid.fromString(words[2]))
                .setPartitions(List.of(new ReadShareGroupStateRequestData.PartitionData()
                    .setPartition(Integer.parseInt(words[3]))
                    .setLeaderEpoch(Integer.parseInt(words[4])))))));
        var answer = result.response().results().get(0).partitions().get(0);
        List<PersisterStateBatch> found = answer.stateBatches().stream().map(PersisterStateBatch::from).toList();
        return answer.errorCode() + "|" + answer.errorMessage() + "|" + answer.stateEpoch() + "|" + answer.startOffset()
            + "|" + text(found) + taken(result);
    }

    private String summary(String[] words) {
        var result = shard.readStateSummary(new ReadShareGroupStateSummaryRequestData().setGroupId(words[1])
            .setTopics(List.of(new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData()
                .setTopicId(Uuid.fromString(words[2]))
                .setPartitions(List.of(new ReadShareGroupStateSummaryRequestData.PartitionData()
                    .setPartition(Integer.parseInt(words[3])))))));
        var answer = result.response().results().get(0).partitions().get(0);
        return answer.errorCode() + "|" + answer.errorMessage() + "|" + answer.stateEpoch() + "|" + answer.leaderEpoch()
            + "|" + answer.startOffset() + "|" + answer.deliveryCompleteCount() + taken(result);
    }

    private String delete(String[] words) {
        var result = shard.deleteState(new DeleteShareGroupStateRequestData().setGroupId(words[1]).setTopics(List.of(
            new DeleteShareGroupStateRequestData.DeleteStateData().setTopicId(Uuid.fromString(words[2]))
                .setPartitions(List.of(new DeleteShareGroupStateRequestData.PartitionData()
                    .setPartition(Integer.parseInt(words[3])))))));
        var answer = result.response().results().get(0).partitions().get(0);
        return answer.errorCode() + "|" + answer.errorMessage() + taken(result);
    }

    private String combine(String[] words) {
        return text(new PersisterStateBatchCombiner(batches(words[2]), batches(words[3]), Long.parseLong(words[1]))
            .combineStateBatches());
    }

    /** The records in hexadecimal form, in the order of their keys: a hash table gives Kafka's. They are replayed. */
    private String taken(CoordinatorResult<?, CoordinatorRecord> result) {
        HexFormat hex = HexFormat.of();
        List<CoordinatorRecord> sorted = new ArrayList<>(result.records());
        sorted.sort((one, other) -> Arrays.compareUnsigned(SERDE.serializeKey(one), SERDE.serializeKey(other)));
        StringBuilder out = new StringBuilder();
        for (CoordinatorRecord record : sorted) {
            byte[] value = SERDE.serializeValue(record);
            out.append(" ").append(hex.formatHex(SERDE.serializeKey(record)));
            out.append(":").append(value == null ? "-" : hex.formatHex(value));
            shard.replay(nextOffset++, -1, (short) -1, record);
        }
        return out.toString();
    }

    /** first,last,count,state;... or - for none. */
    private static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> found = new ArrayList<>();
        if (!text.equals("-")) {
            for (String each : text.split(";")) {
                String[] parts = each.split(",");
                found.add(new PersisterStateBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]),
                    Byte.parseByte(parts[3]), Short.parseShort(parts[2])));
            }
        }
        return found;
    }

    private static String text(List<PersisterStateBatch> batches) {
        List<String> found = new ArrayList<>();
        for (PersisterStateBatch batch : batches) {
            found.add(batch.firstOffset() + "," + batch.lastOffset() + "," + batch.deliveryCount() + ","
                + batch.deliveryState());
        }
        return found.isEmpty() ? "-" : String.join(";", found);
    }

    private Time clock() {
        return (Time) java.lang.reflect.Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, args) -> {
                if (method.getName().equals("milliseconds")) {
                    return nowMs;
                }
                throw new UnsupportedOperationException(method.getName());
            });
    }

    private CoordinatorMetadataImage image() {
        return new CoordinatorMetadataImage() {
            @Override
            public Set<Uuid> topicIds() {
                return topics.keySet();
            }

            @Override
            public Set<String> topicNames() {
                return Set.of();
            }

            @Override
            public Optional<TopicMetadata> topicMetadata(String topicName) {
                return Optional.empty();
            }

            @Override
            public Optional<TopicMetadata> topicMetadata(Uuid topicId) {
                return Optional.ofNullable(topics.get(topicId)).map(count -> topic(topicId, count));
            }

            @Override
            public CoordinatorMetadataDelta emptyDelta() {
                return CoordinatorMetadataDelta.EMPTY;
            }

            @Override
            public long version() {
                return 0;
            }

            @Override
            public boolean isEmpty() {
                return false;
            }
        };
    }

    private static CoordinatorMetadataImage.TopicMetadata topic(Uuid topicId, int count) {
        return new CoordinatorMetadataImage.TopicMetadata() {
            @Override
            public String name() {
                return topicId.toString();
            }

            @Override
            public Uuid id() {
                return topicId;
            }

            @Override
            public int partitionCount() {
                return count;
            }

            @Override
            public List<String> partitionRacks(int partitionId) {
                return List.of();
            }
        };
    }
}
