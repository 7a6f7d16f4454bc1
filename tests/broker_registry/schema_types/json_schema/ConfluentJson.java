import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.json.JsonSchema;
import io.confluent.kafka.schemaregistry.json.diff.Difference;
import io.confluent.kafka.schemaregistry.json.diff.SchemaDiff;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Answers of Confluent's classes to requests on standard input, one JSON object a line. */
public class ConfluentJson {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      output.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
      output.flush();
    }
  }

  private static ObjectNode answer(JsonNode request) {
    ObjectNode answer = JSON.createObjectNode();
    try {
      JsonSchema schema = schema(request);
      answer.put("canonical", schema.canonicalString());
      schema.validate(false);
      answer.put("normalized", schema.normalize().canonicalString());
      if (request.has("writer")) {
        JsonSchema writer = schema(request.get("writer"));
        put(answer.putArray("STRICT"), SchemaDiff.COMPATIBLE_CHANGES_STRICT, writer, schema);
        put(answer.putArray("LENIENT"), SchemaDiff.COMPATIBLE_CHANGES_LENIENT, writer, schema);
      }
    } catch (Exception | StackOverflowError e) {
      Throwable cause = e;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      answer.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
    }
    return answer;
  }

  /** Adds the differences that are not allowed: those that messages show. */
  private static void put(ArrayNode found, Set<Difference.Type> allowed, JsonSchema writer, JsonSchema reader) {
    for (Difference each : SchemaDiff.compare(allowed, writer.rawSchema(), reader.rawSchema())) {
      if (!allowed.contains(each.getType())) {
        found.addArray().add(each.getType().name()).add(each.getJsonPath());
      }
    }
  }

  private static JsonSchema schema(JsonNode request) {
    List<SchemaReference> references = new ArrayList<>();
    Map<String, String> resolved = new LinkedHashMap<>();
    for (JsonNode each : request.path("resolved")) {
      references.add(new SchemaReference(each.get("name").asText(), each.get("name").asText(), 1));
      resolved.put(each.get("name").asText(), each.get("text").asText());
    }
    // Nothing is fetched from the network.
    return new JsonSchema(request.get("text").asText(), references, resolved, null, null, null, true);
  }
}
