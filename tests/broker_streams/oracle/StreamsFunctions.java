/* The functions of a spec as expressions in JSON (spec.py has the table), with values that are String, Long or null. */

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

final class StreamsFunctions {
    private static final long MOST = 1_000_000_007L;

    private StreamsFunctions() {}

    static String text(Object value) {
        if (value instanceof Windowed<?> windowed) {
            return text(windowed.key()) + "@" + windowed.window().start() + "/" + windowed.window().end();
        }
        return String.valueOf(value);
    }

    static long hash(Object value) {
        long found = 0;
        for (byte each : text(value).getBytes(StandardCharsets.UTF_8)) {
            found = (found * 31 + (each & 0xff)) & 0x7fffffffL;
        }
        return found;
    }

    private static long number(Object value) {
        if (value == null) {
            return 0;
        }
        return value instanceof Long found ? found : hash(value) % 1000;
    }

    /** The value of an expression; null if the expression is absent. */
    static Object value(JsonNode of, Object key, Object value, Object other) {
        if (of == null || of.isNull()) {
            return null;
        }
        if (of.isNumber()) {
            return of.asLong();
        }
        if (of.isTextual()) {
            switch (of.asText()) {
                case "key":
                    return key;
                case "value":
                    return value;
                case "other":
                    return other;
                default:
                    throw new IllegalArgumentException("variable " + of.asText());
            }
        }
        String name = of.get(0).asText();
        switch (name) {
            case "text":
                return of.get(1).asText();
            case "text_of":
                return text(value(of.get(1), key, value, other));
            case "concat": {
                StringBuilder found = new StringBuilder();
                for (int at = 1; at < of.size(); at++) {
                    found.append(text(value(of.get(at), key, value, other)));
                }
                return found.toString();
            }
            case "end": {
                String found = text(value(of.get(1), key, value, other));
                return found.substring(Math.max(0, found.length() - of.get(2).asInt()));
            }
            case "length":
                return (long) text(value(of.get(1), key, value, other)).length();
            case "hash":
                return hash(value(of.get(1), key, value, other)) % of.get(2).asLong();
            case "bucket":
                return "b" + hash(value(of.get(1), key, value, other)) % of.get(2).asLong();
            case "add":
                return (number(value(of.get(1), key, value, other)) + number(value(of.get(2), key, value, other)))
                        % MOST;
            case "subtract":
                return (number(value(of.get(1), key, value, other)) - number(value(of.get(2), key, value, other)))
                        % MOST;
            case "max":
                return Math.max(
                        number(value(of.get(1), key, value, other)), number(value(of.get(2), key, value, other)));
            case "if":
                return value(of.get(holds(of.get(1), key, value, other) ? 2 : 3), key, value, other);
            case "fail":
                throw new IllegalStateException("fails as asked");
            default:
                throw new IllegalArgumentException("function " + name);
        }
    }

    /** Whether a condition holds. */
    static boolean holds(JsonNode of, Object key, Object value, Object other) {
        if (of.isBoolean()) {
            return of.asBoolean();
        }
        String name = of.get(0).asText();
        switch (name) {
            case "mod":
                return hash(value(of.get(1), key, value, other)) % of.get(2).asLong() == of.get(3).asLong();
            case "is_null":
                return value(of.get(1), key, value, other) == null;
            case "equal":
                return text(value(of.get(1), key, value, other)).equals(text(value(of.get(2), key, value, other)));
            case "not":
                return !holds(of.get(1), key, value, other);
            default:
                throw new IllegalArgumentException("condition " + name);
        }
    }

    /** A pair of two expressions. */
    static KeyValue<Object, Object> pair(JsonNode of, Object key, Object value) {
        return KeyValue.pair(value(of.get(0), key, value, null), value(of.get(1), key, value, null));
    }

    /** The pairs whose condition, the third element, holds or is absent. */
    static List<KeyValue<Object, Object>> pairs(JsonNode of, Object key, Object value) {
        List<KeyValue<Object, Object>> found = new ArrayList<>();
        for (JsonNode each : of) {
            if (each.size() < 3 || holds(each.get(2), key, value, null)) {
                found.add(pair(each, key, value));
            }
        }
        return found;
    }

    static List<Object> values(JsonNode of, Object key, Object value) {
        List<Object> found = new ArrayList<>();
        of.forEach(each -> found.add(value(each, key, value, null)));
        return found;
    }
}
