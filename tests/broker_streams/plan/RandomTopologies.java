import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.Stores;

/**
 * Writes random topologies, and Kafka's descriptions of them: java -cp "LIBS/*" RandomTopologies.java > topologies.txt
 *
 * A line "SPEC source NAME TOPIC,...;processor NAME PARENT,...;sink NAME TOPIC PARENT,...;store STORE PROCESSOR;"
 * stands before each description.
 */
public class RandomTopologies {
    /** Kafka refuses a supplier that returns the same object twice. */
    private static class Nothing implements Processor<String, String, String, String> {
        @Override
        public void process(org.apache.kafka.streams.processor.api.Record<String, String> record) {
        }
    }

    private static final ProcessorSupplier<String, String, String, String> NOTHING = Nothing::new;

    public static void main(String[] arguments) {
        Random random = new Random(11);
        for (int count = 0; count < 40; count++) {
            Topology topology = new Topology();
            StringBuilder spec = new StringBuilder();
            add(topology, spec, random);
            System.out.println("SPEC " + spec);
            System.out.print(topology.describe());
        }
    }

    private static void add(Topology topology, StringBuilder spec, Random random) {
        List<String> parents = new ArrayList<>();
        Set<String> stores = new LinkedHashSet<>();
        int nodes = 3 + random.nextInt(25);
        for (int at = 0; at < nodes; at++) {
            String name = "N" + Integer.toString(random.nextInt(100_000), 36) + "-" + at;
            int kind = random.nextInt(10);
            if (parents.isEmpty() || kind < 2) {
                String[] topics = new String[1 + random.nextInt(3)];
                for (int each = 0; each < topics.length; each++) {
                    topics[each] = "topic-" + at + "-" + each;
                }
                topology.addSource(name, topics);
                spec.append("source ").append(name).append(' ').append(String.join(",", topics)).append(';');
                parents.add(name);
                continue;
            }
            Set<String> chosen = new LinkedHashSet<>();
            for (int each = random.nextInt(3); each >= 0; each--) {
                chosen.add(parents.get(random.nextInt(parents.size())));
            }
            String[] above = chosen.toArray(new String[0]);
            String joined = String.join(",", above);
            if (kind < 4) {
                topology.addSink(name, "out-" + at, above);
                spec.append("sink ").append(name).append(" out-" + at + " ").append(joined).append(';');
                continue;
            }
            topology.addProcessor(name, NOTHING, above);
            spec.append("processor ").append(name).append(' ').append(joined).append(';');
            parents.add(name);
            if (random.nextInt(3) == 0) {
                String store = "store-" + random.nextInt(4);
                if (stores.add(store)) {
                    topology.addStateStore(Stores.keyValueStoreBuilder(
                        Stores.inMemoryKeyValueStore(store), Serdes.String(), Serdes.String()));
                }
                topology.connectProcessorAndStateStores(name, store);
                spec.append("store ").append(store).append(' ').append(name).append(';');
            }
        }
    }
}
