-- KStream<String, String> textLines = builder.stream(…): the records' values as texts.
CREATE STREAM text_lines FROM TOPIC streams-plaintext-input WITH (format = 'string', maxOffsetsPerTrigger = 100);

-- flatMapValues: a row for each word.
CREATE VIEW words AS
SELECT explode(split(lower(value), r'\W+')) AS word FROM text_lines;

-- groupBy, count, toStream, to: each count that has changed, under its word.
CREATE FLOW word_count AS
INSERT INTO TOPIC streams-wordcount-output WITH (format = 'string', key = word, output = 'update')
SELECT word, CAST(count(*) AS STRING) AS value FROM words WHERE word != '' GROUP BY word;
