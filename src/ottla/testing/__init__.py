"""A Kafka-compatible broker inside your tests: `with Broker() as broker: …`, or the pytest fixture `ottla_broker`."""

from ottla.testing.broker import AsyncBroker, Broker

__all__ = ["AsyncBroker", "Broker"]
