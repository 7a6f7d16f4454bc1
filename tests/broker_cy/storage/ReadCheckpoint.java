import java.io.File;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;

public class ReadCheckpoint {
    public static void main(String[] paths) throws Exception {
        for (String path : paths)
            new OffsetCheckpointFile(new File(path), null).read().forEach(
                (partition, offset) -> System.out.println(path + " " + partition + " " + offset));
    }
}
