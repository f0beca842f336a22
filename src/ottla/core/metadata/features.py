"""Feature levels (KIP-584): what the whole cluster has agreed to speak and write."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ottla.base.errors import ErrorCode, Refused
from ottla.core.metadata.asks import Decision, FeatureAlteration, FeatureUpdate
from ottla.core.metadata.records import FeatureLevelRecord
from ottla.core.metadata.state import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    ControllerState,
)

METADATA_VERSION_MIN = 25
"""4.0-IV3: its record versions are the ones written here, and what a new cluster begins with."""
METADATA_VERSION_MAX = 30
"""4.3-IV0: all that may stand in a log of this level is read."""

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_MAX),
        GROUP_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
        ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    }
)
DEFAULT_FEATURES: Mapping[str, int] = MappingProxyType(
    {METADATA_VERSION: METADATA_VERSION_MIN, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
)
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def update_features(state: ControllerState, asks: Sequence[FeatureUpdate], validate_only: bool = False) -> Decision:
    """All or none: features may depend on each other."""
    times = Counter(ask.name for ask in asks)
    records: list[object] = []
    replies: list[FeatureAlteration] = []
    for ask in asks:
        try:
            if times[ask.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{ask.name} is named more than once")
            if _check_update(state, ask):
                records.append(FeatureLevelRecord(name=ask.name, feature_level=ask.level))
        except Refused as refusal:
            replies.append(FeatureAlteration(ask.name, refusal.code, refusal.why))
        else:
            replies.append(FeatureAlteration(ask.name))
    is_refused = any(reply.error for reply in replies)
    return Decision(() if validate_only or is_refused else tuple(records), replies)


def _check_update(state: ControllerState, ask: FeatureUpdate) -> bool:
    """Whether the level changes."""
    now = state.image.features.get(ask.name, 0)
    if ask.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise Refused(ErrorCode.INVALID_REQUEST, "The controller does not support the given upgrade type.")
    if ask.name not in SUPPORTED_FEATURES:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {ask.level} for feature {ask.name[:249]}. Local controller does not support it.",
        )
    low, high = SUPPORTED_FEATURES[ask.name]
    for broker in state.image.brokers.values():
        broker_low, broker_high = broker.features.get(ask.name, (low, high))
        low, high = max(low, broker_low), min(high, broker_high)
    if not low <= ask.level <= high:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {ask.level} for feature {ask.name}. Supported are versions {low}-{high}.",
        )
    if ask.level < now and ask.upgrade_type == _UPGRADE:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {ask.level} for feature {ask.name}. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        )
    if ask.level > now and ask.upgrade_type != _UPGRADE:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {ask.level} for feature {ask.name}. Can't downgrade to a newer version.",
        )
    return ask.level != now
