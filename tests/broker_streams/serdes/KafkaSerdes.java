import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;

/** Writes the bytes of values in Kafka's formats: java -cp "LIBS/*" KafkaSerdes.java > kafka_bytes.txt */
public class KafkaSerdes {
    public static void main(String[] arguments) {
        print("STRING a\u00e9\ud83d\ude00", Serdes.String(), "a\u00e9\ud83d\ude00");
        print("STRING empty", Serdes.String(), "");
        print("STRING lone surrogate", Serdes.String(), "a\ud800b");
        print("SHORT -2", Serdes.Short(), (short) -2);
        print("INTEGER 70000", Serdes.Integer(), 70000);
        print("LONG -1", Serdes.Long(), -1L);
        print("LONG max", Serdes.Long(), Long.MAX_VALUE);
        print("FLOAT 1.5", Serdes.Float(), 1.5f);
        print("DOUBLE -0.1", Serdes.Double(), -0.1);
        print("BOOLEAN true", Serdes.Boolean(), true);
        print("UUID", Serdes.UUID(), UUID.fromString("12345678-1234-5678-1234-567812345678"));
        print("LIST(LONG) 1 None 3", Serdes.ListSerde(ArrayList.class, Serdes.Long()), new ArrayList<>(Arrays.asList(1L, null, 3L)));
        print("LIST(STRING) a None empty", Serdes.ListSerde(ArrayList.class, Serdes.String()), new ArrayList<>(Arrays.asList("a", null, "")));
        print("LIST(UUID) one", Serdes.ListSerde(ArrayList.class, Serdes.UUID()),
            new ArrayList<>(Arrays.asList(UUID.fromString("12345678-1234-5678-1234-567812345678"))));
        print("LIST(STRING) empty", Serdes.ListSerde(ArrayList.class, Serdes.String()), new ArrayList<>());
        print("TIME_WINDOWED k 60000", new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 60000L),
            new Windowed<>("k", new TimeWindow(60000L, 120000L)));
        print("SESSION_WINDOWED k 5 9", new WindowedSerdes.SessionWindowedSerde<>(Serdes.String()),
            new Windowed<>("k", new SessionWindow(5L, 9L)));
        byte[][] broken = {{'a', (byte) 0xc3, 'b'}, {(byte) 0xe2, (byte) 0x82}, {(byte) 0xf0, (byte) 0x9f, (byte) 0x98, 'x'},
            {(byte) 0xff, (byte) 0xfe}, {(byte) 0xed, (byte) 0xa0, (byte) 0x80}, {(byte) 0xed, (byte) 0xa0, (byte) 0xed, (byte) 0xbf},
            {(byte) 0xc0, (byte) 0x80}, {(byte) 0xf4, (byte) 0x90, (byte) 0x80, (byte) 0x80}, {(byte) 0xe0, (byte) 0x80, (byte) 0x80}};
        for (byte[] each : broken) {
            String text = Serdes.String().deserializer().deserialize("t", each);
            System.out.println("read " + HexFormat.of().formatHex(each) + "\t" + HexFormat.of().formatHex(Serdes.String().serializer().serialize("t", text)));
        }
    }

    private static <T> void print(String name, Serde<T> serde, T value) {
        System.out.println(name.replace("\u00e9", "").replace("\ud83d\ude00", "") + "\t" + HexFormat.of().formatHex(serde.serializer().serialize("t", value)));
    }
}
