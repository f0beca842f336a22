"""ApiVersions: which APIs are served in which versions, and which features the cluster has agreed on."""

import re
from collections.abc import Iterable

from ottla.base.errors import ErrorCode
from ottla.base.own_client import OWN_CLIENT
from ottla.broker.route import Api, Call, Route, versions
from ottla.core.metadata.features import SUPPORTED_FEATURES
from ottla.core.metadata.image import ClusterImage, ImageDelta
from ottla.core.metadata.state import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
)
from ottla.runtime.controller import Controller
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.messages.index import ApiKey

_SERVED_FEATURES = (METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS_VERSION, GROUP_VERSION, TRANSACTION_VERSION)
"""Clients act on features: share.version waits for the APIs behind it."""
_NAMES_CLIENT = 3
_KNOWS_FEATURES_FROM_ZERO = 4
_CLIENT_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?\Z")


class ApiVersionsApi:
    def __init__(self, controller: Controller, apis: Iterable[Api]) -> None:
        self._controller = controller
        routes = [*self.routes(), *(route for api in apis for route in api.routes())]
        routes.sort(key=lambda route: route.key)
        self._api_keys = [
            ApiVersion(int(route.key), route.versions.advertised_first, route.versions.advertised_last)
            for route in routes
            if route.versions.advertised_last >= route.versions.advertised_first
        ]
        self._own_api_keys = [
            ApiVersion(int(route.key), route.versions.advertised_first, route.versions.last) for route in routes
        ]
        self._finalized: list[FinalizedFeatureKey] = []
        self._finalized_epoch = -1
        controller.subscribe(self._on_image)

    def routes(self) -> tuple[Route, ...]:
        return (Route(ApiKey.API_VERSIONS, versions(0, 4), self.answer),)

    async def answer(self, call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
        """ApiVersions. v3 names the client (KIP-511) and tells features (KIP-584), v4 also those that begin at 0.

        Who says it is our own client is told of private APIs too. That is no secret, but foreign clients need not
        wonder about keys that no Kafka has.
        """
        ask = call.request
        is_own = call.version >= _NAMES_CLIENT and ask.client_software_name == OWN_CLIENT
        if call.version >= _NAMES_CLIENT:
            names = (ask.client_software_name, ask.client_software_version)
            if not all(_CLIENT_NAME.match(name) for name in names):
                return ApiVersionsResponse(int(ErrorCode.INVALID_REQUEST))
        begins_at = 0 if call.version >= _KNOWS_FEATURES_FROM_ZERO else 1
        return ApiVersionsResponse(
            api_keys=self._own_api_keys if is_own else self._api_keys,
            supported_features=[
                SupportedFeatureKey(name, first, last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
                if name in _SERVED_FEATURES and first >= begins_at
            ],
            finalized_features_epoch=self._finalized_epoch,
            finalized_features=self._finalized,
        )

    def _on_image(self, image: ClusterImage, delta: ImageDelta) -> None:
        if delta.whole or delta.features:
            levels = image.features.items()
            self._finalized = [FinalizedFeatureKey(name, at, at) for name, at in levels if name in _SERVED_FEATURES]
            self._finalized_epoch = self._controller.metadata_offset
