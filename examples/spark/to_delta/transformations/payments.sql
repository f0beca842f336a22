-- Payments are JSON. What is no payment goes to the topic payments.dlq, as it is, with the reason in its headers.
CREATE STREAM payments (number BIGINT NOT NULL, cents BIGINT NOT NULL)
FROM TOPIC payments WITH (format = 'json', metadata = 'partition, offset', maxOffsetsPerTrigger = 60000);

-- All payments into a table, and where in the topic each is.
CREATE TABLE archive USING delta WITH (path = 'lake/payments') AS
SELECT number, cents, partition, offset FROM payments;

-- Large ones also to a topic, for somebody to look at. The dead letters go out in the same transaction.
CREATE FLOW large AS
INSERT INTO TOPIC payments.large WITH (key = number)
SELECT number, cents FROM payments WHERE cents >= 90000;
