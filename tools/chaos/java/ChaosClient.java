import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's own client at the hands of client_java.py: one call a line comes in, one answer a line goes out. */
public class ChaosClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LINES_MAX = 16;

    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Set<TopicPartition> rebalanced = new HashSet<>();
    private final Map<Integer, List<Future<RecordMetadata>>> posted = new HashMap<>();
    private int tickets = 0;
    private final long callMs;
    private final long sendMs;

    private ChaosClient(JsonNode settings) {
        callMs = settings.get("call_ms").asLong();
        sendMs = settings.get("send_ms").asLong();
        producer = new KafkaProducer<>(
            properties(settings.get("producer")), new ByteArraySerializer(), new ByteArraySerializer());
        consumer = new KafkaConsumer<>(
            properties(settings.get("consumer")), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (settings.get("producer").has("transactional.id")) {
            patiently(producer::initTransactions);
        }
    }

    private static Map<String, Object> properties(JsonNode node) {
        Map<String, Object> properties = new HashMap<>();
        node.properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    private ObjectNode serve(JsonNode call) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        switch (call.get("call").asText()) {
            case "post" -> answer.put("ticket", post(call.get("records")));
            case "collect" -> collect(call.get("ticket").asInt(), answer.putArray("acks"));
            case "poll" -> poll(call.get("ms").asLong(), answer);
            case "assign" -> assign(call.get("positions"));
            case "subscribe" -> subscribe(call.get("topics"));
            case "seek" -> seek(call.get("positions"));
            case "commit" -> consumer.commitAsync();
            case "committed" -> committed(call.get("keys"), answer.putArray("offsets"));
            case "begin" -> {
                posted.clear(); // nobody has asked for them, and their transaction is over
                producer.beginTransaction();
            }
            case "send_offsets" -> sendOffsets(call.get("positions"));
            case "end" -> patiently(
                call.get("commits").asBoolean() ? producer::commitTransaction : producer::abortTransaction);
            default -> throw new IllegalArgumentException(call.toString());
        }
        return answer;
    }

    /** After a timeout nobody knows the outcome; the same call finds out. */
    private void patiently(Runnable call) {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(callMs);
        while (true) {
            try {
                call.run();
                return;
            } catch (RetriableException failure) {
                if (System.nanoTime() > deadline) {
                    throw failure;
                }
            }
        }
    }

    /** Which acknowledgements to ask for later. */
    private int post(JsonNode records) {
        List<Future<RecordMetadata>> results = new ArrayList<>();
        for (JsonNode record : records) {
            byte[] value = Base64.getDecoder().decode(record.get(2).asText());
            TopicPartition place = place(record);
            results.add(producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value)));
        }
        posted.put(++tickets, results);
        return tickets;
    }

    private void collect(int ticket, ArrayNode acks) throws InterruptedException {
        for (Future<RecordMetadata> result : posted.remove(ticket)) {
            acks.add(ack(result));
        }
    }

    private ArrayNode ack(Future<RecordMetadata> result) throws InterruptedException {
        ArrayNode ack = JSON.createArrayNode();
        try {
            RecordMetadata there = result.get(sendMs, TimeUnit.MILLISECONDS);
            return ack.add(there.hasOffset() ? there.offset() : -1L).add("");
        } catch (ExecutionException failure) {
            return ack.addNull().add(failure.getCause().getClass().getSimpleName());
        } catch (java.util.concurrent.TimeoutException failure) {
            return ack.addNull().add("no report");
        }
    }

    private void poll(long ms, ObjectNode answer) {
        ArrayNode records = answer.putArray("records");
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(ms))) {
            ArrayNode row = records.addArray().add(record.topic()).add(record.partition()).add(record.offset());
            row.add(record.value() == null ? null : Base64.getEncoder().encodeToString(record.value()));
        }
        ArrayNode changed = answer.putArray("rebalanced");
        rebalanced.forEach(place -> changed.addArray().add(place.topic()).add(place.partition()));
        rebalanced.clear();
    }

    private void assign(JsonNode positions) {
        consumer.unsubscribe();
        Map<TopicPartition, OffsetAndMetadata> places = offsets(positions);
        consumer.assign(places.keySet());
        places.forEach(consumer::seek);
    }

    private void subscribe(JsonNode topics) {
        List<String> names = new ArrayList<>();
        topics.forEach(topic -> names.add(topic.asText()));
        consumer.subscribe(names, new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> places) {
                rebalanced.addAll(places);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> places) {
                rebalanced.addAll(places);
            }
        });
    }

    private void seek(JsonNode positions) {
        offsets(positions).forEach((place, offset) -> {
            if (consumer.assignment().contains(place)) {
                consumer.seek(place, offset);
            }
        });
    }

    private void committed(JsonNode keys, ArrayNode answer) {
        Set<TopicPartition> places = new HashSet<>();
        keys.forEach(key -> places.add(place(key)));
        consumer.committed(places, Duration.ofMillis(callMs)).forEach((place, offset) -> {
            if (offset != null) {
                answer.addArray().add(place.topic()).add(place.partition()).add(offset.offset());
            }
        });
    }

    private void sendOffsets(JsonNode positions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = offsets(positions);
        patiently(() -> producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()));
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode positions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        positions.forEach(row -> offsets.put(place(row), new OffsetAndMetadata(row.get(2).asLong())));
        return offsets;
    }

    private static TopicPartition place(JsonNode row) {
        return new TopicPartition(row.get(0).asText(), row.get(1).asInt());
    }

    private static boolean isFatal(RuntimeException failure) {
        return failure instanceof ProducerFencedException
            || failure instanceof OutOfOrderSequenceException
            || failure instanceof AuthorizationException
            || failure instanceof RetriableException
            || !(failure instanceof KafkaException);
    }

    private static void answer(ObjectNode node) {
        System.out.println(node);
        System.out.flush();
    }

    private static ObjectNode failed(RuntimeException failure) {
        ObjectNode node = JSON.createObjectNode().put("error", failure.toString());
        return node.put("is_fatal", isFatal(failure));
    }

    public static void main(String[] arguments) throws Exception {
        BlockingQueue<String> lines = new ArrayBlockingQueue<>(LINES_MAX);
        Thread reader = new Thread(() -> {
            try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = input.readLine(); line != null; line = input.readLine()) {
                    lines.put(line);
                }
            } catch (java.io.IOException | InterruptedException failure) {
                System.err.println(failure);
            }
            Runtime.getRuntime().halt(1); // who holds our hand has died, and we die as suddenly
        });
        reader.setDaemon(true);
        reader.start();
        ChaosClient client;
        try {
            client = new ChaosClient(JSON.readTree(arguments[0]));
        } catch (RuntimeException failure) {
            answer(failed(failure));
            return;
        }
        answer(JSON.createObjectNode());
        while (true) {
            JsonNode call = JSON.readTree(lines.take());
            try {
                answer(client.serve(call));
            } catch (RuntimeException failure) {
                answer(failed(failure));
            }
        }
    }
}
