"""The settings of a topic or of this node as DescribeConfigs tells them: value, source, synonyms (KIP-226)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.base.broker_settings import BROKER_SETTINGS, BrokerConfig
from ottla.base.group_settings import GROUP_SETTINGS
from ottla.base.log_level import ROOT_LOGGER, THRESHOLD
from ottla.base.settings import BadSetting, Kind, Reach, Setting
from ottla.base.topic_settings import TOPIC_SETTINGS, inherited_text
from ottla.core.metadata.asks import ResourceType
from ottla.core.metadata.image import ClusterImage


class Source(IntEnum):
    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class SettingView:
    row: Setting
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]
    is_read_only: bool


_FALLBACKS = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms",),
}
"""Broker settings that another one, in a coarser unit, stands in for."""


_LOG_LEVEL = Setting(ROOT_LOGGER, Kind.UNKNOWN, None, "")


class SettingViews:
    """What the settings are worth on this node, with all that lies under each value."""

    def __init__(self, config: BrokerConfig) -> None:
        self._me = str(int(config.node_id))
        self._static = {**_started_with(config), **config.texts}

    def topic(self, image: ClusterImage, own: Mapping[str, str]) -> Iterator[SettingView]:
        """Every setting of a topic that has `own` settings."""
        broker = self._broker_texts(image)
        layers = self._layers(image)
        for row in TOPIC_SETTINGS.values():
            synonyms = _synonyms(row.synonyms, layers) if row.synonyms else ()
            if row.name in own:
                synonyms = (Synonym(row.name, _shown(row, own[row.name]), Source.TOPIC), *synonyms)
            source = synonyms[0].source if synonyms else Source.DEFAULT
            text = own[row.name] if row.name in own else inherited_text(row, broker)
            yield SettingView(row, _shown(row, text), source, synonyms, False)

    def broker(self, image: ClusterImage) -> Iterator[SettingView]:
        """Every setting of this node."""
        layers = self._layers(image)
        for row in BROKER_SETTINGS.values():
            synonyms = _synonyms((row.name, *_FALLBACKS.get(row.name, ())), layers)
            is_read_only = row.reach is Reach.READ_ONLY
            if synonyms:
                yield SettingView(row, synonyms[0].value, synonyms[0].source, synonyms, is_read_only)
            else:
                yield SettingView(row, None, Source.DEFAULT, (), is_read_only)

    def group(self, image: ClusterImage, name: str) -> Iterator[SettingView]:
        """Every setting of a group, be there such a group or not."""
        layers = self._layers(image)
        own = image.configs.get((ResourceType.GROUP, name), {})
        for row in GROUP_SETTINGS.values():
            if row.synonyms:
                synonyms = _synonyms(row.synonyms, layers)
            else:
                synonyms = (Synonym(row.name, row.shown(row.default), Source.DEFAULT),)
            if row.name in own:
                synonyms = (Synonym(row.name, _shown(row, own[row.name]), Source.GROUP), *synonyms)
            yield SettingView(row, synonyms[0].value, synonyms[0].source, synonyms, False)

    def log_level(self) -> SettingView:
        """What this node's log says; Kafka gives loggers no type."""
        return SettingView(_LOG_LEVEL, THRESHOLD.level, Source.LOGGER, (), False)

    def cluster(self, image: ClusterImage) -> Iterator[SettingView]:
        """What is set for all nodes together; nothing has a default here."""
        for name, text in sorted(image.configs.get((ResourceType.BROKER, ""), {}).items()):
            row = BROKER_SETTINGS.get(name)
            if row is not None:
                value = _shown(row, text)
                yield SettingView(row, value, Source.CLUSTER, (Synonym(name, value, Source.CLUSTER),), False)

    def _layers(self, image: ClusterImage) -> tuple[tuple[Mapping[str, str], Source], ...]:
        """From the strongest to the weakest."""
        return (
            (image.configs.get((ResourceType.BROKER, self._me), {}), Source.BROKER),
            (image.configs.get((ResourceType.BROKER, ""), {}), Source.CLUSTER),
            (self._static, Source.STATIC),
        )

    def _broker_texts(self, image: ClusterImage) -> Mapping[str, str]:
        return {**self._static, **image.broker_config(int(self._me))}


def _synonyms(names: Iterable[str], layers: Iterable[tuple[Mapping[str, str], Source]]) -> tuple[Synonym, ...]:
    """Kafka lists layer by layer, and leaves out what is stronger than the first entry under the own name."""
    names = tuple(names)
    found = [
        Synonym(name, _shown(BROKER_SETTINGS[name], layer[name]), source)
        for layer, source in layers
        for name in names
        if name in layer
    ]
    for name in names:
        default = BROKER_SETTINGS[name].default
        if default is not None:
            found.append(Synonym(name, BROKER_SETTINGS[name].shown(default), Source.DEFAULT))
    first = next((at for at, synonym in enumerate(found) if synonym.name == names[0]), len(found))
    return tuple(found[first:])


def _shown(row: Setting, text: str | None) -> str | None:
    try:
        return row.shown(text)
    except BadSetting:
        return text  # written by another version of this node, with other bounds


def _started_with(config: BrokerConfig) -> dict[str, str]:
    """Settings that may have come from elsewhere than the configuration's texts: flags, or the node itself."""
    addresses = ",".join(f"{listener.name}://{listener.address}" for listener in config.listeners)
    texts = {"node.id": str(int(config.node_id)), "broker.id": str(int(config.node_id)), "listeners": addresses}
    if config.advertised_listeners:
        texts["advertised.listeners"] = ",".join(f"{a.name}://{a.address}" for a in config.advertised_listeners)
    if config.log_dirs:
        texts["log.dirs"] = ",".join(str(directory) for directory in config.log_dirs)
    if config.metadata_log_dir is not None:
        texts["metadata.log.dir"] = str(config.metadata_log_dir)
    return texts
