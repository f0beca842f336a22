"""What every decision reads: the image with everything that has been appended, and the settings behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from ottla.base.broker_settings import BROKER_SETTINGS
from ottla.base.settings import Value
from ottla.core.metadata.image import ClusterImage

METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"


@dataclass(slots=True)
class ControllerState:
    """`static` are the settings the node was started with; what was set at run time lies over them."""

    image: ClusterImage
    random: Random
    cluster_id: str = ""
    static: Mapping[str, str] = field(default_factory=dict)

    def setting_text(self, name: str) -> str | None:
        """The cluster's value of a broker setting, as an operator would see it."""
        dynamic = self.image.broker_config(-1)
        return dynamic.get(name, self.static.get(name, BROKER_SETTINGS[name].default))

    def setting(self, name: str) -> Value:
        return BROKER_SETTINGS[name].parse(self.setting_text(name))

    def number(self, name: str) -> int:
        value = self.setting(name)
        assert isinstance(value, int), name
        return value

    @property
    def defaults(self) -> Mapping[str, str]:
        """What topics inherit: the settings in force on every broker."""
        return {**self.static, **self.image.broker_config(-1)}

    @property
    def has_eligible_leader_replicas(self) -> bool:
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1
