/* Kafka's own SharePartition, with a clock, a timer and a persister that the caller drives.
 *
 * Reads a command a line, and answers each with a line (see Ours in share_commands.py, which has the same commands):
 *   new LIMIT LOCK_MS RECORDS_MAX                         another share partition, for what follows
 *   load STATE_EPOCH START first:last:count:state,...      begin with persisted state ("-": none)
 *   acquire MEMBER MODE BATCH_SIZE MAX FETCH base:last[:a],...   MODE 0 batch_optimized, 1 record_limit; a: aborted
 *   ack MEMBER first:last:types,...                        types as digits
 *   release MEMBER
 *   tick MS                                                advance the clock to this time
 *   written N | failed N                                   end the writes of step N
 *   logstart OFFSET
 *
 * After a step that archives records without a write, the harness lets the partition move its start offset, which Kafka does
 * with its next write. It keeps the start offset and the gap window at or after the start of the log; in Kafka both may be
 * before it until a fetch of them fails.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

import kafka.server.ReplicaManager;
import kafka.server.share.SharePartition;

import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

public class KafkaSharePartition {
    static final class SetTime implements Time {
        long ms = 1;

        public long milliseconds() { return ms; }
        public long hiResClockMs() { return ms; }
        public long nanoseconds() { return ms * 1_000_000; }
        public void sleep(long wait) { ms += wait; }
        public void waitObject(Object what, Supplier<Boolean> condition, long deadline) { }
    }

    /** Runs tasks when the clock has reached their times. */
    static final class SetTimer implements Timer {
        final PriorityQueue<TimerTaskEntry> tasks =
            new PriorityQueue<>(Comparator.comparingLong((TimerTaskEntry entry) -> entry.expirationMs));

        public void add(TimerTask task) { tasks.add(new TimerTaskEntry(task, task.delayMs + TIME.ms)); }

        public boolean advanceClock(long ms) {
            TIME.ms = ms;
            while (!tasks.isEmpty() && tasks.peek().expirationMs <= ms) {
                TimerTaskEntry entry = tasks.poll();
                if (!entry.cancelled())
                    entry.timerTask.run();
            }
            return true;
        }

        public int size() { return tasks.size(); }
        public void close() { }
    }

    record Write(PartitionStateBatchData data, CompletableFuture<WriteShareGroupStateResult> future) { }

    record Run(long first, long last, int state, int count, String member, boolean pending) { }

    static final SetTime TIME = new SetTime();
    static final Uuid TOPIC = new Uuid(1, 2);
    static final TopicIdPartition PARTITION = new TopicIdPartition(TOPIC, 0, "t");
    static final ReplicaManager REPLICAS;
    static final GroupConfigManager CONFIGS;

    static {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
            REPLICAS = (ReplicaManager) unsafe.allocateInstance(ReplicaManager.class);
            set(REPLICAS, ReplicaManager.class, "delayedShareFetchPurgatory",
                new DelayedOperationPurgatory<>("ShareFetch", new SetTimer(), 1, 1000, false, false));
            CONFIGS = (GroupConfigManager) unsafe.allocateInstance(GroupConfigManager.class);
            set(CONFIGS, GroupConfigManager.class, "configMap", new ConcurrentHashMap<>());
        } catch (ReflectiveOperationException error) {
            throw new ExceptionInInitializerError(error);
        }
    }

    static void set(Object object, Class<?> type, String name, Object value) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }

    SharePartition partition;
    SetTimer timer;
    CompletableFuture<ReadShareGroupStateResult> reading;
    final List<Write> begun = new ArrayList<>();
    final Map<Integer, List<Write>> writes = new HashMap<>();
    int step = 0;
    long logStart = 0;

    /** Call a method of the share partition that only its package sees. */
    Object call(String name, Object... arguments) throws Throwable {
        for (Method method : SharePartition.class.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                try {
                    return method.invoke(partition, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause();
                }
            }
        }
        throw new IllegalArgumentException(name);
    }

    Object persister(String method, Object parameters) {
        if (method.equals("readState")) {
            reading = new CompletableFuture<>();
            return reading;
        }
        WriteShareGroupStateParameters write = (WriteShareGroupStateParameters) parameters;
        CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
        begun.add(new Write(write.groupTopicPartitionData().topicsData().get(0).partitions().get(0), future));
        return future;
    }

    void renew(int limit, int lockMs, int recordsMax) throws Throwable {
        TIME.ms = 1;
        timer = new SetTimer();
        step = 0;
        logStart = 0;
        begun.clear();
        writes.clear();
        Persister persister = (Persister) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {Persister.class},
            (proxy, method, arguments) -> persister(method.getName(), arguments[0]));
        for (Constructor<?> constructor : SharePartition.class.getDeclaredConstructors()) {
            if (constructor.getParameterCount() == 12) {
                constructor.setAccessible(true);
                partition = (SharePartition) constructor.newInstance("g", PARTITION, 7, recordsMax, limit, lockMs, timer, TIME,
                    persister, REPLICAS, CONFIGS, null);
            }
        }
    }

    String load(int stateEpoch, long start, String text) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (String[] parts : parts(text))
            batches.add(new PersisterStateBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]), Byte.parseByte(parts[3]),
                Short.parseShort(parts[2])));
        CompletableFuture<Void> done = partition.maybeInitialize();
        reading.complete(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC, List.of(
            PartitionFactory.newPartitionAllData(0, stateEpoch, start, (short) 0, null, batches))))).build());
        return done.isCompletedExceptionally() ? "failed" : "loaded";
    }

    static List<String[]> parts(String text) {
        List<String[]> found = new ArrayList<>();
        if (!text.equals("-"))
            for (String part : text.split(","))
                found.add(part.split(":"));
        return found;
    }

    static void append(ByteBuffer buffer, long base, long last, boolean aborted) {
        // The producer of an aborted batch has the batch's offset as its id.
        try (MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
                TimestampType.CREATE_TIME, base, 0L, aborted ? base : -1, (short) (aborted ? 0 : -1), aborted ? 0 : -1, aborted, 0)) {
            builder.appendWithOffset(base, 0L, null, new byte[1]);
            if (last > base)
                builder.appendWithOffset(last, 0L, null, new byte[1]);
        }
    }

    String acquire(String member, String mode, int batchSize, int max, long fetch, String text) throws Throwable {
        List<FetchResponseData.AbortedTransaction> aborted = new ArrayList<>();
        List<String[]> batches = parts(text);
        ByteBuffer buffer = ByteBuffer.allocate(200 * batches.size());
        for (String[] parts : batches) {
            long base = Long.parseLong(parts[0]);
            append(buffer, base, Long.parseLong(parts[1]), parts.length > 2);
            if (parts.length > 2)
                aborted.add(new FetchResponseData.AbortedTransaction().setProducerId(base).setFirstOffset(base));
        }
        buffer.flip();
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 0, 0, MemoryRecords.readableRecords(buffer), Optional.empty(),
            OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
        ShareAcquiredRecords found = partition.acquire(member, mode.equals("1") ? ShareAcquireMode.RECORD_LIMIT
            : ShareAcquireMode.BATCH_OPTIMIZED, batchSize, max, fetch, data, FetchIsolation.TXN_COMMITTED);
        StringBuilder answer = new StringBuilder("acquired");
        for (AcquiredRecords each : found.acquiredRecords())
            answer.append(" ").append(each.firstOffset()).append("-").append(each.lastOffset()).append(":").append(each.deliveryCount());
        call("maybeUpdateCachedStateAndOffsets");
        return answer.toString();
    }

    String ended(CompletableFuture<Void> future) {
        if (!future.isCompletedExceptionally())
            return "done";
        try {
            future.join();
            return "done";
        } catch (CompletionException error) {
            return Errors.forException(error.getCause()).name();
        }
    }

    String acknowledge(String member, String text) {
        List<ShareAcknowledgementBatch> batches = new ArrayList<>();
        for (String[] parts : parts(text)) {
            List<Byte> types = new ArrayList<>();
            for (char digit : parts[2].toCharArray())
                types.add((byte) (digit - '0'));
            batches.add(new ShareAcknowledgementBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]), types));
        }
        return ended(partition.acknowledge(member, batches));
    }

    String end(int number, Errors error) {
        for (Write write : writes.remove(number))
            write.future.complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC, List.of(
                PartitionFactory.newPartitionErrorData(0, error.code(), null))))).build());
        return "ended";
    }

    /** Neighbors of one kind become one: ours has runs, and Kafka batches and single offsets. */
    static void add(List<Run> runs, Run run) {
        if (!runs.isEmpty()) {
            Run before = runs.get(runs.size() - 1);
            if (before.last + 1 == run.first && before.state == run.state && before.count == run.count
                    && before.member.equals(run.member) && before.pending == run.pending) {
                runs.set(runs.size() - 1, new Run(before.first, run.last, run.state, run.count, run.member, run.pending));
                return;
            }
        }
        runs.add(run);
    }

    static Run run(long first, long last, InFlightState state) {
        return new Run(first, last, state.state().id(), state.deliveryCount(), state.memberId(), state.hasOngoingStateTransition());
    }

    static Object field(Object object, String name) throws ReflectiveOperationException {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    @SuppressWarnings("unchecked")
    String state() throws Throwable {
        List<Run> runs = new ArrayList<>();
        for (InFlightBatch batch : ((NavigableMap<Long, InFlightBatch>) call("cachedState")).values()) {
            if (batch.offsetState() == null)
                add(runs, run(batch.firstOffset(), batch.lastOffset(), (InFlightState) field(batch, "batchState")));
            else
                batch.offsetState().forEach((offset, each) -> add(runs, run(offset, offset, each)));
        }
        StringBuilder answer = new StringBuilder();
        answer.append("| ").append(call("startOffset")).append(" ").append(call("endOffset")).append(" ")
            .append(partition.nextFetchOffset()).append(" ").append((boolean) call("canAcquireRecords") ? "can" : "full")
            .append(" ").append(call("deliveryCompleteCount")).append(" |");
        for (Run run : runs)
            answer.append(" ").append(run.first).append("-").append(run.last).append(":").append(run.state).append(":")
                .append(run.count).append(":").append(run.member).append(run.pending ? "?" : "");
        return answer.toString();
    }

    String writesOfStep() {
        if (begun.isEmpty())
            return "";
        List<Run> runs = new ArrayList<>();
        List<PersisterStateBatch> batches = new ArrayList<>();
        begun.forEach(write -> batches.addAll(write.data.stateBatches()));
        batches.sort(Comparator.comparingLong(PersisterStateBatch::firstOffset));
        for (PersisterStateBatch batch : batches)
            add(runs, new Run(batch.firstOffset(), batch.lastOffset(), batch.deliveryState(), batch.deliveryCount(), "", false));
        PartitionStateBatchData last = begun.get(begun.size() - 1).data;
        StringBuilder answer = new StringBuilder(" write ").append(step).append(" ").append(last.stateEpoch()).append(" ")
            .append(last.leaderEpoch()).append(" ").append(last.startOffset()).append(" ").append(last.deliveryCompleteCount());
        for (Run run : runs)
            answer.append(" ").append(run.first).append("-").append(run.last).append(":").append(run.count).append(":").append(run.state);
        writes.put(step, new ArrayList<>(begun));
        begun.clear();
        return answer.toString();
    }

    void keepAfterLogStart() throws Throwable {
        Object gap = call("persisterReadResultGapWindow");
        if (gap != null) {
            Field start = gap.getClass().getDeclaredField("gapStartOffset");
            start.setAccessible(true);
            start.set(gap, Math.max((long) start.get(gap), logStart));
        }
        if ((long) call("startOffset") < logStart)
            call("updateCacheAndOffsets", logStart);
    }

    String run(String[] words) throws Throwable {
        String answer;
        step++;
        switch (words[0]) {
            case "new":
                renew(Integer.parseInt(words[1]), Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                return "new";
            case "load":
                answer = load(Integer.parseInt(words[1]), Long.parseLong(words[2]), words[3]);
                break;
            case "acquire":
                answer = acquire(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]), Long.parseLong(words[5]),
                    words[6]);
                break;
            case "ack":
                answer = acknowledge(words[1], words[2]);
                break;
            case "release":
                answer = ended(partition.releaseAcquiredRecords(words[1]));
                break;
            case "tick":
                timer.advanceClock(Long.parseLong(words[1]));
                answer = "ticked";
                break;
            case "written":
                answer = end(Integer.parseInt(words[1]), Errors.NONE);
                break;
            case "failed":
                answer = end(Integer.parseInt(words[1]), Errors.COORDINATOR_NOT_AVAILABLE);
                call("maybeUpdateCachedStateAndOffsets");
                break;
            case "logstart":
                logStart = Long.parseLong(words[1]);
                call("updateCacheAndOffsets", logStart);
                keepAfterLogStart();
                call("maybeUpdateCachedStateAndOffsets");
                answer = "moved";
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        String written = writesOfStep();
        keepAfterLogStart();
        return answer + written + " " + state();
    }

    public static void main(String[] none) throws Exception {
        KafkaSharePartition harness = new KafkaSharePartition();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line; (line = commands.readLine()) != null; ) {
            try {
                answers.append(harness.run(line.split(" ")));
            } catch (Throwable error) {
                answers.append("error ").append(error);
            }
            answers.append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }
}
