/* Kafka's own quota managers, with a clock that the caller sets.
 *
 * Reads a command a line, and answers each that asks with a line:
 *   new SAMPLES SECONDS                              other managers, for what follows
 *   quota KIND USER CLIENT LIMIT                     set a quota ("-": no such part; "*": the default); LIMIT "-" removes it
 *   use KIND USER CLIENT VALUE MS                    record and check: the wait in ms
 *   note KIND USER CLIENT VALUE MS                   record only
 *   change strict|permissive USER CLIENT COUNT MS    partitions: "refused" or "done", and the wait in ms
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

public class KafkaQuotas {
    static final class SetTime implements Time {
        long ms = 0;

        public long milliseconds() { return ms; }
        public long nanoseconds() { return ms * 1_000_000; }
        public void sleep(long wait) { ms += wait; }
        public void waitObject(Object what, Supplier<Boolean> condition, long deadline) { }
    }

    static final SetTime TIME = new SetTime();
    static final Map<String, ClientQuotaManager> MANAGERS = new HashMap<>();

    static void renew(int samples, int seconds) {
        MANAGERS.values().forEach(ClientQuotaManager::shutdown);
        MANAGERS.clear();
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, seconds);
        Metrics metrics = new Metrics(new MetricConfig(), java.util.List.of(), TIME, true);
        MANAGERS.put("bytes", new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, TIME, "t"));
        MANAGERS.put("time", new kafka.server.ClientRequestQuotaManager(config, metrics, TIME, "t", Optional.empty()));
        MANAGERS.put("changes", new ControllerMutationQuotaManager(config, metrics, TIME, "t", Optional.empty()));
    }

    static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
    }

    static String client(String text) { return text.equals("-") ? "" : text; }

    static Optional<ClientQuotaEntity.ConfigEntity> user(String text) {
        if (text.equals("-")) return Optional.empty();
        if (text.equals("*")) return Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
        return Optional.of(new ClientQuotaManager.UserEntity(Sanitizer.sanitize(text)));
    }

    static Optional<ClientQuotaEntity.ConfigEntity> clientEntity(String text) {
        if (text.equals("-")) return Optional.empty();
        if (text.equals("*")) return Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
        return Optional.of(new ClientQuotaManager.ClientIdEntity(text));
    }

    static void change(String[] words) throws Exception {
        ControllerMutationQuotaManager manager = (ControllerMutationQuotaManager) MANAGERS.get("changes");
        TIME.ms = Long.parseLong(words[5]);
        ControllerMutationQuota quota = words[1].equals("strict")
            ? manager.newStrictQuotaFor(session(words[2]), client(words[3]))
            : manager.newPermissiveQuotaFor(session(words[2]), client(words[3]));
        String done = "done";
        try {
            quota.record(Double.parseDouble(words[4]));
        } catch (ThrottlingQuotaExceededException e) {
            done = "refused";
        }
        System.out.println(done + " " + quota.throttleTime());
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("new")) {
                renew(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            } else if (words[0].equals("quota")) {
                Optional<Quota> limit = words[4].equals("-")
                    ? Optional.empty() : Optional.of(new Quota(Double.parseDouble(words[4]), true));
                MANAGERS.get(words[1]).updateQuota(user(words[2]), clientEntity(words[3]), limit);
            } else if (words[0].equals("change")) {
                change(words);
            } else {
                TIME.ms = Long.parseLong(words[5]);
                ClientQuotaManager manager = MANAGERS.get(words[1]);
                double value = Double.parseDouble(words[4]);
                if (words[0].equals("use")) {
                    System.out.println(manager.maybeRecordAndGetThrottleTimeMs(
                        session(words[2]), client(words[3]), value, TIME.ms));
                } else if (manager.quotasEnabled()) {
                    manager.recordNoThrottle(session(words[2]), client(words[3]), value);
                }
            }
        }
        System.out.flush();
    }
}
