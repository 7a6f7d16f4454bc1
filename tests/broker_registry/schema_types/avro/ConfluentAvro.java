import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/** The normalized form of Avro schemas by Confluent's class, one JSON value a line. */
public class ConfluentAvro {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      output.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
      output.flush();
    }
  }

  private static ObjectNode answer(JsonNode text) {
    ObjectNode answer = JSON.createObjectNode();
    try {
      AvroSchema schema = new AvroSchema(text.asText(), List.of(), Map.of(), null, true);
      answer.put("canonical", schema.canonicalString());
      answer.put("normalized", schema.normalize().canonicalString());
    } catch (Exception | StackOverflowError e) {
      answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
    }
    return answer;
  }
}
