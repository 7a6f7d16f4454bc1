import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import io.confluent.kafka.schemaregistry.protobuf.diff.Difference;
import io.confluent.kafka.schemaregistry.protobuf.diff.SchemaDiff;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** Answers of Confluent's classes to requests on standard input, one JSON object a line. */
public class ConfluentProtobuf {
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
    ProtobufSchema schema;
    try {
      schema = schema(request);
      answer.put("canonical", schema.canonicalString());
    } catch (Exception | StackOverflowError e) {
      return answer.put("error", String.valueOf(e.getMessage()));
    }
    put(answer, "name", schema::name);
    put(answer, "normalized", () -> schema.normalize().canonicalString());
    put(answer, "ignore_extensions", () -> schema.formattedString("ignore_extensions"));
    put(answer, "serialized", () -> schema.formattedString("serialized"));
    if (request.has("writer")) {
      ArrayNode differences = answer.putArray("differences");
      for (Difference each : SchemaDiff.compare(schema(request.get("writer")), schema)) {
        differences.addObject()
            .put("kind", each.getType().name())
            .put("path", each.getFullPath())
            .put("text", each.toString())
            .put("allowed", SchemaDiff.COMPATIBLE_CHANGES.contains(each.getType()));
      }
    }
    return answer;
  }

  private static ProtobufSchema schema(JsonNode request) {
    List<SchemaReference> references = new ArrayList<>();
    Map<String, String> resolved = new LinkedHashMap<>();
    for (JsonNode each : request.path("references")) {
      references.add(new SchemaReference(
          each.get("name").asText(), each.get("subject").asText(), each.get("version").asInt()));
    }
    for (JsonNode each : request.path("resolved")) {
      resolved.put(each.get("name").asText(), each.get("text").asText());
    }
    return new ProtobufSchema(request.get("text").asText(), references, resolved, null, null);
  }

  private static void put(ObjectNode answer, String name, Callable<String> value) {
    try {
      answer.put(name, value.call());
    } catch (Exception | StackOverflowError e) {
      answer.put(name + "_error", String.valueOf(e.getMessage()));
    }
  }
}
