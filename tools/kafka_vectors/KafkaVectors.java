import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads lines of "name version hex", decodes the bytes with Kafka's own class, and writes name, version, the bytes that
 * the class encodes, and its JSON. A message that it cannot read ends the program.
 */
public final class KafkaVectors {
    private static final List<String> NAMES = List.of(
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
        "org.apache.kafka.storage.internals.log.generated.%s",
        "org.apache.kafka.server.generated.%s",
        "org.apache.kafka.raft.generated.%s");

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String pattern : NAMES) {
            try {
                return Class.forName(String.format(pattern, name));
            } catch (ClassNotFoundException e) {
                // The next pattern may match.
            }
        }
        throw new ClassNotFoundException(name);
    }

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split(" ", -1);
            short version = Short.parseShort(parts[1]);
            Class<?> type = find(parts[0]);
            Message message = (Message) type.getDeclaredConstructor().newInstance();
            ByteBuffer in = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
            message.read(new ByteBufferAccessor(in), version);
            if (in.hasRemaining()) {
                throw new IllegalStateException(line + ": bytes are left over");
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(bytes), cache, version);
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            Object json = converter.getMethod("write", type, short.class).invoke(null, message, version);
            out.append(parts[0]).append('\t').append(version).append('\t')
                .append(HexFormat.of().formatHex(bytes.array())).append('\t').append(json).append('\n');
        }
        Files.write(Path.of(arguments[1]), out.toString().getBytes(StandardCharsets.UTF_8));
    }
}
