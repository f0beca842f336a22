import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Lets Apache Kafka's own cleaner run one round over each log that the given file names. */
public final class CleanLogs {
    private static final int LONG_MS = Integer.MAX_VALUE;

    /** One line for each log: partition directory, first dirty offset, current time, delete.retention.ms. */
    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split("\t");
            long end = clean(new File(words[0]), Long.parseLong(words[1]), Long.parseLong(words[2]), words[3], scheduler);
            System.out.println(words[0] + "\t" + end);
        }
        scheduler.shutdown();
    }

    private static long clean(File directory, long firstDirty, long nowMs, String retentionMs, KafkaScheduler scheduler)
            throws Exception {
        LogConfig config = new LogConfig(Map.of(
            "cleanup.policy", "compact",
            "delete.retention.ms", retentionMs,
            "internal.segment.bytes", "1000",
            "index.interval.bytes", "100"));
        Time time = Time.SYSTEM;
        UnifiedLog log = UnifiedLog.create(
            directory, config, 0, 0, scheduler, new BrokerTopicStats(), time, LONG_MS,
            new ProducerStateManagerConfig(LONG_MS, false), LONG_MS, new LogDirFailureChannel(1), false, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", time), time, partition -> { });
        LogToClean dirty = new LogToClean(log, firstDirty, log.activeSegment().baseOffset(), true);
        long end = cleaner.doClean(dirty, nowMs).getKey();
        log.close();
        return end;
    }
}
