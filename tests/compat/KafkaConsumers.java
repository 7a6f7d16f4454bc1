import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's consumers with group.protocol=consumer: subscriptions by a list and by a pattern, static members, commits,
 * listeners. Arguments: bootstrap servers, topic, group, partitions, records. Prints a line for each thing that works.
 */
public class KafkaConsumers {
    static final Duration POLL = Duration.ofMillis(50);
    static final long LIMIT_MS = 60_000;

    /** A consumer, and what its listener was told. */
    static class Reader implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Set<TopicPartition> held = new HashSet<>();
        int revoked = 0;

        Reader(String bootstrap, String group, String instance) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", group);
            settings.put("group.protocol", "consumer");
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            held.addAll(partitions);
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            held.removeAll(partitions);
            revoked += partitions.size();
        }

        void poll() {
            consumer.poll(POLL);
        }

        /** The records read of the partitions that it holds; others may read a partition again that it gave up. */
        long read() {
            return held.stream().mapToLong(consumer::position).sum();
        }
    }

    static void until(String what, BooleanSupplier condition, Reader... readers) {
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("no " + what + " within " + LIMIT_MS + " ms");
            }
            for (Reader reader : readers) {
                reader.poll();
            }
        }
        System.out.println(what);
    }

    static void check(String what, boolean holds) {
        if (!holds) {
            throw new IllegalStateException("not: " + what);
        }
        System.out.println(what);
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        String group = arguments[2];
        int partitions = Integer.parseInt(arguments[3]);
        int records = Integer.parseInt(arguments[4]);
        Reader first = new Reader(bootstrap, group, null);
        first.consumer.subscribe(List.of(topic), first);
        until("the first reader has all partitions", () -> first.held.size() == partitions, first);
        Reader second = new Reader(bootstrap, group, "one");
        second.consumer.subscribe(List.of(topic), second);
        until(
            "two readers share the partitions",
            () -> first.held.size() == partitions / 2 && second.held.size() == partitions / 2, first, second);
        check("the listener was told what to give up", first.revoked == partitions / 2);
        until("all records are read", () -> first.read() + second.read() == records, first, second);
        first.consumer.commitSync();
        second.consumer.commitSync();
        Set<TopicPartition> all = new HashSet<>(first.held);
        all.addAll(second.held);
        long committed = 0;
        for (OffsetAndMetadata each : first.consumer.committed(all).values()) {
            committed += each.offset();
        }
        check("all offsets are committed", committed == records);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            var described = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            List<String> instances = new ArrayList<>();
            for (var member : described.members()) {
                member.groupInstanceId().ifPresent(instances::add);
            }
            check("the group is described", described.groupState().toString().equals("Stable")
                && described.type().toString().equals("Consumer") && described.members().size() == 2
                && instances.equals(List.of("one")) && described.groupEpoch().isPresent());
        }
        Set<TopicPartition> before = Set.copyOf(second.held);
        second.consumer.close();
        Reader again = new Reader(bootstrap, group, "one");
        again.consumer.subscribe(List.of(topic), again);
        until("the static member has its partitions again", () -> again.held.equals(before), first, again);
        check("the other one kept its partitions", first.revoked == partitions / 2);
        again.consumer.unsubscribe();
        until("a reader that unsubscribes gives its partitions up", () -> first.held.size() == partitions, first);
        Reader matching = new Reader(bootstrap, group + "-pattern", null);
        matching.consumer.subscribe(new SubscriptionPattern(topic.substring(0, topic.length() - 1) + "."), matching);
        until("a pattern matches the topic", () -> matching.held.size() == partitions, matching);
        check("of its name", new TreeSet<>(List.of(topic)).equals(topics(matching)));
        for (Reader reader : List.of(first, again, matching)) {
            reader.consumer.close();
        }
        System.out.println("done");
    }

    static Set<String> topics(Reader reader) {
        Set<String> found = new TreeSet<>();
        for (TopicPartition each : reader.held) {
            found.add(each.topic());
        }
        return found;
    }
}
