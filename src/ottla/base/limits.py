"""The bounds that no setting moves: every queue, cache and buffer names its limit here."""

FRAME_HEADER_BYTES = 4
RECEIVE_BUFFER_BYTES = 256 * 1024
"""One per event loop: small requests are parsed here and leave nothing behind in an idle connection."""

RETAINED_FRAME_BUFFER_BYTES = 2 * 1024 * 1024
"""A connection keeps a private buffer of up to this size between two large requests."""

PIPELINED_REQUESTS_MAX = 64
"""Started and unanswered requests of one connection; past that it is not read from."""

UNSENT_BYTES_MAX = 64 * 1024 * 1024
"""Encoded and unsent answers of one connection; past that it is not read from."""

CLIENT_TEXT_BYTES_LOGGED_MAX = 200
TOPIC_NAME_CHARS_MAX = 249
PARTITIONS_PER_TOPIC_MAX = 10_000
PARTITIONS_PER_REQUEST_MAX = 20_000
PRODUCED_DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""Of a batch that must be looked into when it is produced; a larger one is refused, it may be a bomb."""

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
TOPICS_CREATED_BY_ASKING_MAX = 1_000
"""Topics that one request for metadata may create; for the rest the client asks again, as it does anyway."""

PRODUCER_BATCHES_REMEMBERED = 5
VERIFICATIONS_MAX = 10_000
"""Of one partition: producers whose first batch in a transaction has been seen and not been let in yet."""

FETCH_RESPONSE_SLICES_MAX = 4096
METADATA_RECORDS_PER_BATCH_MAX = 10_000
