import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.Incompatibility;

/** Answers of Avro's Java library to requests on standard input, one JSON object a line. */
public class AvroJava {
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
      if (request.has("writer")) {
        differences(request, answer.putArray("differences"));
      } else {
        boolean isNew = request.path("is_new").asBoolean();
        List<Schema> references = new ArrayList<>();
        Schema schema = schema(request, isNew, references);
        answer.put("resolved", schema.toString()).put("canonical", schema.toString(references, false));
      }
    } catch (Exception | StackOverflowError e) {
      answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
    }
    return answer;
  }

  /** Names and defaults are checked as Confluent's registry checks those of a new or a stored schema. */
  private static Schema schema(JsonNode request, boolean isNew, List<Schema> references) {
    Schema.Parser parser = parser(isNew);
    // The printer gets schemas of a parser of its own, by which it knows names only.
    Schema.Parser other = parser(isNew);
    for (JsonNode each : request.path("references")) {
      parser.parse(each.asText());
      references.add(other.parse(each.asText()));
    }
    Schema schema = parser.parse(request.get("text").asText());
    if (!isNew) {
      checkNames(schema, Collections.newSetFromMap(new IdentityHashMap<>()));
    }
    return schema;
  }

  private static void checkNames(Schema schema, Set<Schema> seen) {
    if (!seen.add(schema)) {
      return;
    }
    List<String> names = new ArrayList<>();
    List<Schema> below = new ArrayList<>();
    switch (schema.getType()) {
      case RECORD -> schema.getFields().forEach(each -> {
        names.add(each.name());
        below.add(each.schema());
      });
      case ENUM -> names.addAll(schema.getEnumSymbols());
      case ARRAY -> below.add(schema.getElementType());
      case MAP -> below.add(schema.getValueType());
      case UNION -> below.addAll(schema.getTypes());
      default -> { }
    }
    if (Set.of(Schema.Type.RECORD, Schema.Type.ENUM, Schema.Type.FIXED).contains(schema.getType())) {
      names.add(schema.getName());
    }
    for (String each : names) {
      NameValidator.Result result = NameValidator.UTF_VALIDATOR.validate(each);
      if (!result.isOK()) {
        throw new IllegalArgumentException(result.getErrors());
      }
    }
    below.forEach(each -> checkNames(each, seen));
  }

  private static Schema.Parser parser(boolean isNew) {
    Schema.Parser parser = new Schema.Parser(isNew ? NameValidator.STRICT_VALIDATOR : NameValidator.NO_VALIDATION);
    parser.setValidateDefaults(isNew);
    return parser;
  }

  private static void differences(JsonNode request, ArrayNode differences) {
    Schema reader = parser(false).parse(request.get("reader").asText());
    Schema writer = parser(false).parse(request.get("writer").asText());
    SchemaCompatibility.SchemaPairCompatibility found =
        SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
    for (Incompatibility each : found.getResult().getIncompatibilities()) {
      differences.addArray().add(each.getType().name()).add(each.getLocation()).add(each.getMessage());
    }
  }
}
