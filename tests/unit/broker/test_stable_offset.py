"""The last stable offset, where readers of committed data stop."""

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.testing import Broker


def latest(admin: AdminClient, isolation: IsolationLevel) -> int:
    [found] = admin.list_offsets({TopicPartition("t", 0): OffsetSpec.latest()}, isolation_level=isolation).values()
    offset: int = found.result(10).offset
    return offset


def test_it_does_not_stay_behind_where_the_beginning_of_an_open_transaction_is_deleted() -> None:
    with Broker(topics={"t": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
        producer.init_transactions(10)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("t", b"open")
        assert producer.flush(10) == 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert (latest(admin, IsolationLevel.READ_COMMITTED), latest(admin, IsolationLevel.READ_UNCOMMITTED)) == (0, 3)
        [deleted] = admin.delete_records([TopicPartition("t", 0, 2)]).values()
        assert deleted.result(10).low_watermark == 2
        assert latest(admin, IsolationLevel.READ_COMMITTED) == 2
        producer.abort_transaction(10)
        assert latest(admin, IsolationLevel.READ_COMMITTED) == 4
