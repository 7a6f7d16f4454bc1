import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.time.temporal.TemporalAccessor;
import java.time.temporal.TemporalQueries;
import java.util.Base64;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Answers what Java makes of a pattern. A request and an answer are JSON strings in base64; parts end with U+0000. */
public class JavaTime {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            byte[] request = Base64.getDecoder().decode(line.substring(1, line.length() - 1));
            String[] parts = new String(request, StandardCharsets.UTF_8).split("\0", -1);
            String answer;
            try {
                answer = "=" + answer(parts);
            } catch (RuntimeException error) {
                answer = "!" + error.getMessage();
            }
            byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
            System.out.println('"' + Base64.getEncoder().encodeToString(bytes) + '"');
        }
    }

    private static String answer(String[] parts) {
        switch (parts[0]) {
            case "format":
                return DateTimeFormatter.ofPattern(parts[1], Locale.US)
                    .format(Instant.ofEpochMilli(Long.parseLong(parts[2])).atZone(ZoneId.of(parts[3])));
            case "parse":
                return parsed(parts[1], parts[2], ZoneId.of(parts[3]));
            case "replace":
                return parts[1].replaceAll(parts[2], parts[3]);
            case "extract":
                return extracted(parts[1], parts[2]);
            default:
                throw new IllegalArgumentException(parts[0]);
        }
    }

    private static String parsed(String pattern, String text, ZoneId local) {
        DateTimeFormatter formatter =
            new DateTimeFormatterBuilder().parseCaseInsensitive().appendPattern(pattern).toFormatter(Locale.US);
        TemporalAccessor found = formatter.parse(text);
        LocalDate date = found.query(TemporalQueries.localDate());
        LocalTime time = found.query(TemporalQueries.localTime());
        if (found.isSupported(ChronoField.INSTANT_SECONDS)) {
            return String.valueOf(found.getLong(ChronoField.INSTANT_SECONDS) * 1000 + time.getNano() / 1_000_000);
        }
        ZoneId zone = found.query(TemporalQueries.zone());
        return String.valueOf(ZonedDateTime.of(date, time, zone == null ? local : zone).toInstant().toEpochMilli());
    }

    private static String extracted(String pattern, String text) {
        Matcher matcher = Pattern.compile(pattern).matcher(text);
        StringBuilder found = new StringBuilder();
        while (matcher.find()) {
            found.append('<').append(matcher.group()).append('>');
        }
        return found.toString();
    }
}
