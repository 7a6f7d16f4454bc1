/* MirrorMaker 2's own classes, for comparison: a JSON request a line, a JSON answer a line.
 *
 *   {"op": "many", "requests"}                              the answers to several requests
 *   {"op": "defs"}                                          the settings by scope: [name, type, default, valid]
 *   {"op": "policy", "class", "props", "calls"}             the results of methods of a replication policy
 *   {"op": "encode", "kind", "fields"}                      key and value of a record, in hexadecimal
 *   {"op": "decode", "kind", "key", "value"}                the text of the record
 *   {"op": "json", "partition" or "offset"}                 the text of JsonConverter for a source offset
 *   {"op": "regex", "pattern", "names"}                     true for each name that matches as a whole
 *   {"op": "filter", "kind", "props", "names"}              true for each name that passes
 *   {"op": "config", "props"}                               pairs, and the merged settings of each pair
 *   {"op": "store", "syncs", "offsets"}                     the translations of OffsetSyncStore
 *   {"op": "remote", "props", "source", "group"}            what RemoteClusterUtils reads in a target
 *   {"op": "literals", "texts"}                             type, logical type and text of each header, null for null
 *   {"op": "transforms", "stages", "converter", "records"}  key, value and headers of each record, null if it is left out
 *   {"op": "pacing", "lag", "records"}                      true for each record whose sync is sent at once
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.converters.ByteArrayConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultGroupFilter;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.DefaultTopicFilter;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.runtime.distributed.Crypto;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public final class MirrorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final String MIRROR = "org.apache.kafka.connect.mirror.";

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> found = new HashMap<>();
        node.fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }

    private static Object call(Object target, Class<?> type, String name, Class<?>[] types, Object... values)
            throws Throwable {
        Method method = type.getDeclaredMethod(name, types);
        method.setAccessible(true);
        try {
            return method.invoke(target, values);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private static List<List<String>> definitions(ConfigDef def) {
        List<List<String>> rows = new ArrayList<>();
        for (ConfigDef.ConfigKey key : new TreeMap<>(def.configKeys()).values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "(required)";
            rows.add(java.util.Arrays.asList(key.name, key.type.toString(), value,
                key.validator == null ? "" : key.validator.toString().replaceFirst("@[0-9a-f]+$", "")));
        }
        return rows;
    }

    private static ConfigDef definition(String name, String field) throws Exception {
        Field found = Class.forName(MIRROR + name).getDeclaredField(field);
        found.setAccessible(true);
        return (ConfigDef) found.get(null);
    }

    private static Object defs() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (String name : List.of("Source", "Checkpoint", "Heartbeat"))
            found.put(name, definitions(definition("Mirror" + name + "Config", "CONNECTOR_CONFIG_DEF")));
        found.put("client", definitions(definition("MirrorClientConfig", "CLIENT_CONFIG_DEF")));
        Method top = MirrorMakerConfig.class.getDeclaredMethod("config");
        top.setAccessible(true);
        found.put("top", definitions((ConfigDef) top.invoke(null)));
        Method worker = DistributedConfig.class.getDeclaredMethod("config", Crypto.class);
        worker.setAccessible(true);
        found.put("worker", definitions((ConfigDef) worker.invoke(null, Crypto.SYSTEM)));
        found.put("consumer", definitions(ConsumerConfig.configDef()));
        found.put("producer", definitions(ProducerConfig.configDef()));
        found.put("admin", definitions(AdminClientConfig.configDef()));
        return found;
    }

    private static Object policy(JsonNode request) throws Throwable {
        DefaultReplicationPolicy policy = request.get("class").asText().equals("Identity")
            ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        policy.configure(strings(request.get("props")));
        List<Object> results = new ArrayList<>();
        for (JsonNode each : request.get("calls")) {
            String name = each.get(0).asText();
            if (name.equals("isCycle")) {
                MirrorSourceConnector connector = new MirrorSourceConnector();
                for (String field : List.of("replicationPolicy", "sourceAndTarget")) {
                    Field set = MirrorSourceConnector.class.getDeclaredField(field);
                    set.setAccessible(true);
                    set.set(connector, field.equals("replicationPolicy") ? policy
                        : new SourceAndTarget("unused", each.get(2).asText()));
                }
                results.add(call(connector, MirrorSourceConnector.class, name, new Class<?>[] {String.class},
                    each.get(1).asText()));
                continue;
            }
            Class<?>[] types = new Class<?>[each.size() - 1];
            Object[] values = new Object[types.length];
            for (int i = 0; i < types.length; i++) {
                types[i] = String.class;
                values[i] = each.get(i + 1).asText();
            }
            results.add(policy.getClass().getMethod(name, types).invoke(policy, values));
        }
        return results;
    }

    private static Object encode(JsonNode request) throws Throwable {
        JsonNode f = request.get("fields");
        Object record;
        switch (request.get("kind").asText()) {
            case "sync":
                record = new OffsetSync(new TopicPartition(f.get(0).asText(), f.get(1).asInt()),
                    f.get(2).asLong(), f.get(3).asLong());
                break;
            case "checkpoint":
                record = new Checkpoint(f.get(0).asText(), new TopicPartition(f.get(1).asText(), f.get(2).asInt()),
                    f.get(3).asLong(), f.get(4).asLong(), f.get(5).asText());
                break;
            default:
                record = new Heartbeat(f.get(0).asText(), f.get(1).asText(), f.get(2).asLong());
        }
        List<String> found = new ArrayList<>();
        for (String part : List.of("recordKey", "recordValue"))
            found.add(HEX.formatHex((byte[]) call(record, record.getClass(), part, new Class<?>[0])));
        return found;
    }

    private static ConsumerRecord<byte[], byte[]> record(JsonNode key, JsonNode value) {
        return new ConsumerRecord<>("t", 0, 0, HEX.parseHex(key.asText()), HEX.parseHex(value.asText()));
    }

    private static Object decode(JsonNode request) {
        ConsumerRecord<byte[], byte[]> record = record(request.get("key"), request.get("value"));
        switch (request.get("kind").asText()) {
            case "sync":
                OffsetSync sync = OffsetSync.deserializeRecord(record);
                return List.of(sync.topicPartition().topic(), sync.topicPartition().partition(), sync.upstreamOffset(),
                    sync.downstreamOffset());
            case "checkpoint":
                Checkpoint point = Checkpoint.deserializeRecord(record);
                return List.of(point.consumerGroupId(), point.topicPartition().topic(),
                    point.topicPartition().partition(), point.upstreamOffset(), point.downstreamOffset(),
                    point.metadata());
            default:
                Heartbeat beat = Heartbeat.deserializeRecord(record);
                return List.of(beat.sourceClusterAlias(), beat.targetClusterAlias(), beat.timestamp());
        }
    }

    private static Object json(JsonNode request) throws Throwable {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), true);
        JsonNode given = request.get("partition");
        Object value;
        if (given == null) {
            Class<?> utils = Class.forName(MIRROR + "MirrorUtils");
            value = call(null, utils, "wrapOffset", new Class<?>[] {long.class}, request.get("offset").asLong());
        } else {
            Class<?> utils = Class.forName(MIRROR + "MirrorUtils");
            Object partition = call(null, utils, "wrapPartition", new Class<?>[] {TopicPartition.class, String.class},
                new TopicPartition(given.get(2).asText(), given.get(3).asInt()), given.get(1).asText());
            value = List.of(given.get(0).asText(), partition);
        }
        return new String(converter.fromConnectData("", null, value), StandardCharsets.UTF_8);
    }

    private static Object literals(JsonNode request) {
        List<Object> found = new ArrayList<>();
        for (JsonNode each : request.get("texts")) {
            SchemaAndValue value = Values.parseString(each.asText());
            if (value == null || value.value() == null) {
                found.add(null);
                continue;
            }
            String logical = value.schema().name();
            found.add(List.of(value.schema().type().toString(),
                logical == null ? "" : logical.substring(logical.lastIndexOf('.') + 1),
                Values.convertToString(value.schema(), value.value())));
        }
        return found;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : HEX.parseHex(node.asText());
    }

    private static String hex(Object value) {
        return value == null ? null : HEX.formatHex((byte[]) value);
    }

    private static <T> T plugin(JsonNode node, Class<T> type) throws Exception {
        String name = "org.apache.kafka.connect.transforms." + node.get("type").asText();
        return type.cast(Class.forName(name).getDeclaredConstructor().newInstance());
    }

    @SuppressWarnings("unchecked")
    private static Object transforms(JsonNode request) throws Exception {
        List<Transformation<SourceRecord>> transforms = new ArrayList<>();
        List<Predicate<SourceRecord>> predicates = new ArrayList<>();
        for (JsonNode each : request.get("stages")) {
            Transformation<SourceRecord> transform = plugin(each, Transformation.class);
            transform.configure(strings(each.get("props")));
            transforms.add(transform);
            Predicate<SourceRecord> predicate = null;
            if (each.has("predicate")) {
                predicate = plugin(each.get("predicate"), Predicate.class);
                predicate.configure(strings(each.get("predicate").get("props")));
            }
            predicates.add(predicate);
        }
        HeaderConverter converter = request.get("converter").asText().equals("simple")
            ? new SimpleHeaderConverter() : new ByteArrayConverter();
        List<Object> found = new ArrayList<>();
        for (JsonNode each : request.get("records")) {
            // As MirrorSourceTask makes them.
            ConnectHeaders headers = new ConnectHeaders();
            for (JsonNode header : each.get("headers"))
                headers.addBytes(header.get(0).asText(), bytes(header.get(1)));
            SourceRecord record = new SourceRecord(null, null, each.get("topic").asText(), 0,
                Schema.OPTIONAL_BYTES_SCHEMA, bytes(each.get("key")), Schema.BYTES_SCHEMA, bytes(each.get("value")), 7L,
                headers);
            for (int i = 0; i < transforms.size() && record != null; i++) {
                boolean negate = request.get("stages").get(i).path("negate").asBoolean();
                if (predicates.get(i) == null || negate ^ predicates.get(i).test(record))
                    record = transforms.get(i).apply(record);
            }
            if (record == null) {
                found.add(null);
                continue;
            }
            List<Object> written = new ArrayList<>();
            for (Header header : record.headers())
                written.add(java.util.Arrays.asList(header.key(),
                    hex(converter.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()))));
            found.add(java.util.Arrays.asList(hex(record.key()), hex(record.value()), written));
        }
        return found;
    }

    private static Object regex(JsonNode request) {
        Pattern pattern = Pattern.compile(request.get("pattern").asText());
        List<Boolean> found = new ArrayList<>();
        for (JsonNode each : request.get("names"))
            found.add(pattern.matcher(each.asText()).matches());
        return found;
    }

    private static Object filter(JsonNode request) {
        Map<String, String> props = strings(request.get("props"));
        List<Boolean> found = new ArrayList<>();
        DefaultTopicFilter topics = new DefaultTopicFilter();
        DefaultGroupFilter groups = new DefaultGroupFilter();
        DefaultConfigPropertyFilter properties = new DefaultConfigPropertyFilter();
        String kind = request.get("kind").asText();
        switch (kind) {
            case "topics": topics.configure(props); break;
            case "groups": groups.configure(props); break;
            default: properties.configure(props);
        }
        for (JsonNode each : request.get("names")) {
            String name = each.asText();
            switch (kind) {
                case "topics": found.add(topics.shouldReplicateTopic(name)); break;
                case "groups": found.add(groups.shouldReplicateGroup(name)); break;
                case "defaults": found.add(properties.shouldReplicateSourceDefault(name)); break;
                default: found.add(properties.shouldReplicateConfigProperty(name));
            }
        }
        return found;
    }

    private static Object config(JsonNode request) throws Throwable {
        Map<String, String> props = strings(request.get("props"));
        props.put("plugin.discovery", "service_load");
        MirrorMakerConfig config = new MirrorMakerConfig(props);
        Map<String, Object> pairs = new TreeMap<>();
        for (SourceAndTarget pair : config.clusterPairs()) {
            Map<String, Object> found = new TreeMap<>();
            found.put("worker", new TreeMap<>(config.workerConfig(pair)));
            Map<String, String> base = config.connectorBaseConfig(pair, MirrorSourceConnector.class);
            found.put("connector", new TreeMap<>(base));
            pairs.put(pair.toString(), found);
        }
        return pairs;
    }

    private static Object store(JsonNode request) throws Throwable {
        Class<?> type = Class.forName(MIRROR + "OffsetSyncStore");
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object store = constructor.newInstance();
        Field read = type.getDeclaredField("readToEnd");
        read.setAccessible(true);
        read.set(store, true);
        TopicPartition partition = new TopicPartition("t", 0);
        for (JsonNode each : request.get("syncs")) {
            OffsetSync sync = new OffsetSync(partition, each.get(0).asLong(), each.get(1).asLong());
            byte[] key = (byte[]) call(sync, OffsetSync.class, "recordKey", new Class<?>[0]);
            byte[] value = (byte[]) call(sync, OffsetSync.class, "recordValue", new Class<?>[0]);
            call(store, type, "handleRecord", new Class<?>[] {ConsumerRecord.class},
                new ConsumerRecord<>("syncs", 0, 0, key, value));
        }
        List<Object> found = new ArrayList<>();
        for (JsonNode each : request.get("offsets")) {
            OptionalLong answer = (OptionalLong) call(store, type, "translateDownstream",
                new Class<?>[] {String.class, TopicPartition.class, long.class}, "g", partition, each.asLong());
            found.add(answer.isPresent() ? answer.getAsLong() : null);
        }
        return found;
    }

    private static Object remote(JsonNode request) throws Exception {
        Map<String, Object> props = new HashMap<>(strings(request.get("props")));
        String source = request.get("source").asText();
        Map<String, Object> found = new TreeMap<>();
        Map<String, List<Object>> offsets = new TreeMap<>();
        RemoteClusterUtils.translateOffsets(props, source, request.get("group").asText(), Duration.ofSeconds(30))
            .forEach((partition, offset) ->
                offsets.put(partition.toString(), List.of(offset.offset(), offset.metadata())));
        found.put("offsets", offsets);
        found.put("upstream", new TreeSet<>(RemoteClusterUtils.upstreamClusters(props)));
        found.put("hops", RemoteClusterUtils.replicationHops(props, source));
        found.put("checkpoints", RemoteClusterUtils.checkpointTopics(props));
        found.put("heartbeats", RemoteClusterUtils.heartbeatTopics(props));
        return found;
    }

    private static Object pacing(JsonNode request) throws Throwable {
        Class<?> type = Class.forName(MIRROR + "OffsetSyncWriter$PartitionState");
        Constructor<?> constructor = type.getDeclaredConstructor(long.class);
        constructor.setAccessible(true);
        Object state = constructor.newInstance(request.get("lag").asLong());
        List<Object> found = new ArrayList<>();
        for (JsonNode each : request.get("records")) {
            boolean sent = (Boolean) call(state, type, "update", new Class<?>[] {long.class, long.class},
                each.get(0).asLong(), each.get(1).asLong());
            if (sent)
                call(state, type, "reset", new Class<?>[0]);
            found.add(sent);
        }
        return found;
    }

    private static Object checked(JsonNode request) {
        try {
            return answer(request);
        } catch (Throwable error) {
            return Map.of("error", error.getClass().getSimpleName(), "message", String.valueOf(error.getMessage()));
        }
    }

    private static Object many(JsonNode request) {
        List<Object> found = new ArrayList<>();
        for (JsonNode each : request.get("requests"))
            found.add(checked(each));
        return found;
    }

    private static Object answer(JsonNode request) throws Throwable {
        switch (request.get("op").asText()) {
            case "many": return many(request);
            case "defs": return defs();
            case "policy": return policy(request);
            case "encode": return encode(request);
            case "decode": return decode(request);
            case "json": return json(request);
            case "literals": return literals(request);
            case "transforms": return transforms(request);
            case "regex": return regex(request);
            case "filter": return filter(request);
            case "config": return config(request);
            case "store": return store(request);
            case "remote": return remote(request);
            case "pacing": return pacing(request);
            default: throw new IllegalArgumentException(request.toString());
        }
    }

    public static void main(String[] none) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.write(JSON.writeValueAsBytes(checked(JSON.readTree(line))));
            System.out.println();
            System.out.flush();
        }
    }
}
