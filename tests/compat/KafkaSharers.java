import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's share consumers with each setting of a group, and static members of consumer groups. Argument: bootstrap
 * servers. Prints everything that an application sees, so that two brokers can be compared; no line depends on time.
 */
public class KafkaSharers {
    static final long LIMIT_MS = 60_000;
    static final int ATTEMPTS = 5;
    static String bootstrap;
    static Admin admin;

    static void until(String what, BooleanSupplier condition) throws Exception {
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("no " + what + " within " + LIMIT_MS + " ms");
            }
        }
    }

    static void prepare(String name, String... settings) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
        List<AlterConfigOp> changes = new ArrayList<>();
        for (int at = 0; at < settings.length; at += 2) {
            changes.add(new AlterConfigOp(new ConfigEntry(settings[at], settings[at + 1]), AlterConfigOp.OpType.SET));
        }
        if (!changes.isEmpty()) {
            var group = new ConfigResource(ConfigResource.Type.GROUP, name);
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", "0"));
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Send records, one in a batch; `time` is the timestamp of the first one, or null. */
    static void send(String topic, Long time, String... values) throws Exception {
        try (KafkaProducer<String, String> producer = producer(null)) {
            for (int at = 0; at < values.length; at++) {
                producer.send(new ProducerRecord<>(topic, 0, time == null ? null : time + at, null, values[at])).get();
            }
        }
    }

    /** Send records in one batch. */
    static void sendTogether(String topic, int count) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "linger.ms", "10000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int at = 0; at < count; at++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "b" + at));
            }
        }
    }

    static KafkaShareConsumer<String, String> sharer(String group, String... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group));
        for (int at = 0; at < settings.length; at += 2) {
            all.put(settings[at], settings[at + 1]);
        }
        var consumer = new KafkaShareConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(group));
        return consumer;
    }

    static List<ConsumerRecord<String, String>> take(KafkaShareConsumer<String, String> consumer, int count)
            throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        until(count + " records", () -> {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            return found.size() >= count;
        });
        return found;
    }

    static String shown(List<ConsumerRecord<String, String>> records) {
        StringBuilder text = new StringBuilder();
        for (ConsumerRecord<String, String> each : records) {
            text.append(' ').append(each.offset()).append('=').append(each.value());
            each.deliveryCount().ifPresent(count -> text.append('x').append(count));
        }
        return text.toString();
    }

    /** How the commit of each partition ends. */
    static Map<String, String> committed(KafkaShareConsumer<String, String> consumer) {
        Map<String, String> ends = new TreeMap<>();
        consumer.commitSync().forEach((partition, error) ->
            ends.put(partition.topic() + "-" + partition.partition(),
                error.map(each -> each.getClass().getSimpleName() + ": " + each.getMessage()).orElse("done")));
        return ends;
    }

    static void commit(String what, KafkaShareConsumer<String, String> consumer) {
        System.out.println(what + ": commit " + committed(consumer));
    }

    static int rest(KafkaShareConsumer<String, String> consumer) {
        int count = 0;
        for (int round = 0; round < 5; round++) {
            count += consumer.poll(Duration.ofMillis(200)).count();
        }
        return count;
    }

    static void renews() throws Exception {
        int attempt = 0;
        while (!renewed("renewed-" + attempt)) {
            if (++attempt == ATTEMPTS) {
                throw new IllegalStateException("this program has pauses that are longer than the lock of a record");
            }
        }
        String name = "not-renewed";
        prepare(name, "share.auto.offset.reset", "earliest", "share.renew.acknowledge.enable", "false");
        send(name, null, "a");
        try (var holder = sharer(name, "share.acknowledgement.mode", "explicit")) {
            ConsumerRecord<String, String> held = take(holder, 1).get(0);
            holder.acknowledge(held, AcknowledgeType.RENEW);
            commit(name, holder);
        }
    }

    /** Keep a record for twice the time of its lock. False, with nothing printed, if a pause was as long as a lock. */
    static boolean renewed(String name) throws Exception {
        long lockMs = 3_000;
        prepare(name, "share.auto.offset.reset", "earliest", "share.record.lock.duration.ms", Long.toString(lockMs));
        send(name, null, "a", "b");
        Set<String> seen = new TreeSet<>();
        try (var holder = sharer(name, "share.acknowledgement.mode", "explicit", "max.poll.records", "1")) {
            List<ConsumerRecord<String, String>> polled = new ArrayList<>();
            long[] locked = new long[1];
            until("a record", () -> {
                locked[0] = System.currentTimeMillis();
                holder.poll(Duration.ofMillis(200)).forEach(polled::add);
                return !polled.isEmpty();
            });
            ConsumerRecord<String, String> held = polled.get(0);
            seen.add("lock " + holder.acquisitionLockTimeoutMs());
            long end = System.currentTimeMillis() + 2 * lockMs;
            boolean isLast;
            do {
                isLast = System.currentTimeMillis() > end;
                long before = System.currentTimeMillis();
                holder.acknowledge(held, isLast ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW);
                seen.add("commit " + committed(holder).values());
                if (System.currentTimeMillis() - locked[0] >= lockMs) {
                    return false;
                }
                locked[0] = before;
                if (!isLast) {
                    Thread.sleep(lockMs / 10);
                    held = take(holder, 1).get(0);
                    seen.add("polled" + shown(List.of(held)));
                }
            } while (!isLast);
        }
        try (var other = sharer(name)) {
            seen.add("left" + shown(take(other, 1)));
        }
        System.out.println("renewed: " + seen);
        return true;
    }

    static void transactions() throws Exception {
        for (String level : List.of("read_committed", "read_uncommitted")) {
            String name = level;
            prepare(name, "share.auto.offset.reset", "earliest", "share.isolation.level", level);
            try (var producer = producer("t-" + name)) {
                producer.initTransactions();
                for (int round = 0; round < 6; round++) {
                    producer.beginTransaction();
                    for (int at = 0; at < 3; at++) {
                        producer.send(new ProducerRecord<>(name, 0, null, round + "." + at)).get();
                    }
                    if (round % 2 == 0) {
                        producer.commitTransaction();
                    } else {
                        producer.abortTransaction();
                    }
                }
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(name, 0, null, "open")).get();
                int expected = level.equals("read_committed") ? 9 : 19;
                try (var consumer = sharer(name)) {
                    System.out.println(name + ":" + shown(take(consumer, expected)));
                    System.out.println(name + ": rest " + rest(consumer));
                    producer.commitTransaction();
                    if (level.equals("read_committed")) {
                        System.out.println(name + ": later" + shown(take(consumer, 1)));
                    }
                }
            }
        }
    }

    static void resets() throws Exception {
        long now = System.currentTimeMillis();
        // Not by_duration:PT0S: Kafka looks for a record that is newer than each fetch, and the group never begins.
        for (String reset : List.of("earliest", "by_duration:PT1H", "by_duration:P30D", "latest")) {
            String name = "reset-" + reset.replaceAll("[^a-zA-Z0-9]", "-");
            prepare(name, "share.auto.offset.reset", reset);
            send(name, now - 7_200_000, "old 0", "old 1");
            send(name, now - 60_000, "new 0", "new 1");
            try (var consumer = sharer(name)) {
                if (reset.equals("latest")) {
                    readsOnlyLater(name, consumer);
                    continue;
                }
                send(name, null, "last");
                System.out.println(name + ":" + shown(take(consumer, reset.contains("PT1H") ? 3 : 5)));
                System.out.println(name + ": rest " + rest(consumer));
            }
        }
        for (String wrong : List.of("none", "by_duration", "by_duration:", "by_duration:-P1D", "by_duration:1", "LATEST")) {
            try {
                prepare("wrong-" + Math.abs(wrong.hashCode()), "share.auto.offset.reset", wrong);
                System.out.println("reset " + wrong + ": accepted");
            } catch (Exception error) {
                System.out.println("reset " + wrong + ": " + error.getCause().getClass().getSimpleName());
            }
        }
    }

    /** The start is where the first fetch finds it, which no client is told: records are sent until one arrives. */
    static void readsOnlyLater(String name, KafkaShareConsumer<String, String> consumer) throws Exception {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        until("a record of " + name, () -> {
            try {
                send(name, null, "later");
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            return !found.isEmpty();
        });
        System.out.println(name + ": only later ones " + found.stream().allMatch(each -> each.value().equals("later")));
    }

    static void limits() throws Exception {
        for (String mode : List.of("record_limit", "batch_optimized")) {
            String name = "mode-" + mode.replace('_', '-');
            prepare(name, "share.auto.offset.reset", "earliest");
            sendTogether(name, 10);
            sendTogether(name, 10);
            try (var consumer = sharer(name, "share.acquire.mode", mode, "max.poll.records", "4")) {
                int found = 0;
                List<Integer> counts = new ArrayList<>();
                long end = System.currentTimeMillis() + LIMIT_MS;
                while (found < 20 && System.currentTimeMillis() < end) {
                    int count = consumer.poll(Duration.ofMillis(500)).count();
                    if (count > 0) {
                        counts.add(count);
                        found += count;
                    }
                }
                System.out.println(name + ": polls " + counts);
            }
        }
    }

    static void mixed() throws Exception {
        String name = "mixed";
        prepare(name, "share.auto.offset.reset", "earliest");
        sendTogether(name, 9);
        AcknowledgeType[] types = {AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT};
        try (var consumer = sharer(name, "share.acknowledgement.mode", "explicit")) {
            int at = 0;
            var first = take(consumer, 9);
            System.out.println(name + ": first" + shown(first));
            for (ConsumerRecord<String, String> each : first) {
                consumer.acknowledge(each, types[at++ % 3]);
            }
            commit(name, consumer);
            List<ConsumerRecord<String, String>> again = take(consumer, 3);
            System.out.println(name + ": again" + shown(again));
            try {
                consumer.poll(Duration.ofMillis(100));
                System.out.println(name + ": polled without acknowledgements");
            } catch (IllegalStateException error) {
                System.out.println(name + ": " + error.getMessage());
            }
            try {
                consumer.acknowledge(first.get(0), AcknowledgeType.ACCEPT);
                System.out.println(name + ": acknowledged twice");
            } catch (IllegalStateException error) {
                System.out.println(name + ": " + error.getMessage());
            }
            for (ConsumerRecord<String, String> each : again) {
                consumer.acknowledge(each);
            }
            commit(name, consumer);
            System.out.println(name + ": rest " + rest(consumer));
        }
    }

    static void counts() throws Exception {
        String name = "limited";
        prepare(name, "share.auto.offset.reset", "earliest", "share.delivery.count.limit", "3");
        send(name, null, "poison", "good");
        try (var consumer = sharer(name, "share.acknowledgement.mode", "explicit")) {
            Map<String, List<Integer>> deliveries = new TreeMap<>();
            until("the last delivery of each record", () -> {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(300))) {
                    deliveries.computeIfAbsent(each.value(), any -> new ArrayList<>())
                        .add((int) (short) each.deliveryCount().get());
                    boolean isPoison = each.value().equals("poison");
                    consumer.acknowledge(each, isPoison ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                }
                return deliveries.getOrDefault("poison", List.of()).size() == 3 && deliveries.containsKey("good");
            });
            System.out.println(name + ": " + deliveries);
            System.out.println(name + ": rest " + rest(consumer));
        }
    }

    static KafkaConsumer<String, String> member(String group, String instance) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("group.protocol", "consumer");
        settings.put("group.instance.id", instance);
        settings.put("auto.offset.reset", "earliest");
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(group));
        return consumer;
    }

    static void statics() throws Exception {
        String name = "statics";
        prepare(name);
        send(name, null, "a");
        var first = member(name, "one");
        until("the record", () -> !first.poll(Duration.ofMillis(100)).isEmpty());
        var second = member(name, "one");
        try {
            until("the second to fail", () -> {
                second.poll(Duration.ofMillis(100));
                first.poll(Duration.ofMillis(100));
                return !second.assignment().isEmpty();
            });
            System.out.println(name + ": the second one got the partition");
        } catch (KafkaException error) {
            System.out.println(name + ": the second one: " + error.getClass().getSimpleName());
        }
        second.close(CloseOptions.timeout(Duration.ofSeconds(2)));
        first.commitSync();
        System.out.println(name + ": the first one keeps " + first.assignment());
        describe(name);
        first.close();
        describe(name);
        var third = member(name, "one");
        until("the partition again", () -> {
            third.poll(Duration.ofMillis(100));
            return !third.assignment().isEmpty();
        });
        System.out.println(name + ": position " + third.position(third.assignment().iterator().next()));
        describe(name);
        var removed = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")));
        admin.removeMembersFromConsumerGroup(name, removed).all().get();
        describe(name);
        third.close(CloseOptions.timeout(Duration.ofSeconds(2)));
    }

    static void describe(String group) throws Exception {
        var found = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        StringBuilder text = new StringBuilder();
        for (var each : found.members()) {
            text.append(" ").append(each.groupInstanceId().orElse("-")).append(" epoch ")
                .append(each.memberEpoch().orElse(null)).append(" ").append(each.assignment().topicPartitions())
                .append(" of ").append(each.targetAssignment().map(target -> target.topicPartitions()).orElse(null));
        }
        System.out.println(group + ": " + found.groupState() + " epoch " + found.groupEpoch().orElse(null) + text);
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        try {
            renews();
            transactions();
            resets();
            limits();
            mixed();
            counts();
            statics();
        } finally {
            admin.close();
        }
        System.out.println("done");
    }
}
