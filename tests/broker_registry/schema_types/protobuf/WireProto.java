import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.squareup.wire.schema.Field;
import com.squareup.wire.schema.Location;
import com.squareup.wire.schema.internal.parser.*;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import kotlin.ranges.IntRange;

/** The elements that Wire reads from texts: a request is a text in JSON, an answer has its elements or an error. */
public class WireProto {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      output.println(JSON.writeValueAsString(answer(JSON.readTree(line).asText())));
      output.flush();
    }
  }

  private static Object answer(String text) {
    try {
      return file(ProtoParser.Companion.parse(Location.get(""), text));
    } catch (Exception | StackOverflowError e) {
      return element("error", String.valueOf(e.getMessage()));
    }
  }

  private static Map<String, Object> element(Object... pairs) {
    Map<String, Object> result = new LinkedHashMap<>();
    for (int i = 0; i < pairs.length; i += 2) {
      result.put((String) pairs[i], pairs[i + 1]);
    }
    return result;
  }

  private static <T> List<Object> all(List<T> elements, Function<T, Object> form) {
    List<Object> result = new ArrayList<>();
    for (T each : elements) {
      result.add(form.apply(each));
    }
    return result;
  }

  private static Object file(ProtoFileElement file) {
    return element(
        "syntax", file.getSyntax() == null ? null : file.getSyntax().toString(),
        "package", file.getPackageName(),
        "imports", file.getImports(),
        "public_imports", file.getPublicImports(),
        "weak_imports", file.getWeakImports(),
        "types", all(file.getTypes(), WireProto::type),
        "services", all(file.getServices(), WireProto::service),
        "extends", all(file.getExtendDeclarations(), WireProto::extend),
        "options", all(file.getOptions(), WireProto::option));
  }

  private static Object type(TypeElement type) {
    if (type instanceof EnumElement) {
      EnumElement each = (EnumElement) type;
      return element(
          "name", each.getName(),
          "values", all(each.getConstants(), WireProto::constant),
          "options", all(each.getOptions(), WireProto::option),
          "reserved", all(each.getReserveds(), WireProto::reserved));
    }
    MessageElement each = (MessageElement) type;
    return element(
        "name", each.getName(),
        "fields", all(each.getFields(), WireProto::field),
        "oneofs", all(each.getOneOfs(), WireProto::oneof),
        "types", all(each.getNestedTypes(), WireProto::type),
        "options", all(each.getOptions(), WireProto::option),
        "reserved", all(each.getReserveds(), WireProto::reserved),
        "extensions", all(each.getExtensions(), WireProto::extensions),
        "groups", all(each.getGroups(), WireProto::group),
        "extends", all(each.getExtendDeclarations(), WireProto::extend));
  }

  private static String label(Field.Label label) {
    return label == null ? null : label.name().toLowerCase(Locale.US);
  }

  private static Object field(FieldElement each) {
    return element(
        "label", label(each.getLabel()),
        "type", each.getType(),
        "name", each.getName(),
        "tag", each.getTag(),
        "options", all(each.getOptions(), WireProto::option),
        "default", each.getDefaultValue(),
        "json_name", each.getJsonName());
  }

  private static Object group(GroupElement each) {
    return element(
        "label", label(each.getLabel()),
        "name", each.getName(),
        "tag", each.getTag(),
        "fields", all(each.getFields(), WireProto::field));
  }

  private static Object oneof(OneOfElement each) {
    return element(
        "name", each.getName(),
        "fields", all(each.getFields(), WireProto::field),
        "groups", all(each.getGroups(), WireProto::group),
        "options", all(each.getOptions(), WireProto::option));
  }

  private static Object extend(ExtendElement each) {
    return element("name", each.getName(), "fields", all(each.getFields(), WireProto::field));
  }

  private static Object constant(EnumConstantElement each) {
    return element(
        "name", each.getName(), "tag", each.getTag(), "options", all(each.getOptions(), WireProto::option));
  }

  private static Object reserved(ReservedElement each) {
    return element("values", all(each.getValues(), WireProto::number));
  }

  private static Object extensions(ExtensionsElement each) {
    return element(
        "values", all(each.getValues(), WireProto::number), "options", all(each.getOptions(), WireProto::option));
  }

  private static Object number(Object value) {
    return value instanceof IntRange
        ? List.of(((IntRange) value).getFirst(), ((IntRange) value).getLast())
        : value;
  }

  private static Object service(ServiceElement each) {
    return element(
        "name", each.getName(),
        "rpcs", all(each.getRpcs(), WireProto::rpc),
        "options", all(each.getOptions(), WireProto::option));
  }

  private static Object rpc(RpcElement each) {
    return element(
        "name", each.getName(),
        "request", each.getRequestType(),
        "response", each.getResponseType(),
        "streams_request", each.getRequestStreaming(),
        "streams_response", each.getResponseStreaming(),
        "options", all(each.getOptions(), WireProto::option));
  }

  private static Object option(OptionElement each) {
    return element(
        "name", each.getName(),
        "kind", each.getKind().name().toLowerCase(Locale.US),
        "value", value(each.getValue()),
        "parenthesized", each.isParenthesized());
  }

  @SuppressWarnings("unchecked")
  private static Object value(Object value) {
    if (value instanceof OptionElement) {
      return option((OptionElement) value);
    }
    if (value instanceof OptionElement.OptionPrimitive) {
      OptionElement.OptionPrimitive each = (OptionElement.OptionPrimitive) value;
      return element("kind", each.getKind().name().toLowerCase(Locale.US), "value", value(each.getValue()));
    }
    if (value instanceof Map) {
      Map<String, Object> result = new LinkedHashMap<>();
      ((Map<String, Object>) value).forEach((key, each) -> result.put(key, value(each)));
      return result;
    }
    return value instanceof List ? all((List<Object>) value, WireProto::value) : value;
  }
}
