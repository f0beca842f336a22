-- Payments are JSON. What is no payment goes to the topic to-delta-payments.dlq, as it is, with the reason in its headers.
CREATE STREAM payments (number BIGINT NOT NULL, cents BIGINT NOT NULL)
FROM TOPIC to-delta-payments WITH (format = 'json', metadata = 'partition, offset', maxOffsetsPerTrigger = 60000);

-- All payments into a table, and where in the topic each is.
CREATE TABLE archive USING delta WITH (path = 'lake/payments') AS
SELECT number, cents, partition, offset FROM payments;
