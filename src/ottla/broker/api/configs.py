"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: settings of whatever has any."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from ottla.base.broker_settings import BrokerConfig
from ottla.base.errors import ErrorCode, Refused
from ottla.base.log_level import ROOT_LOGGER, THRESHOLD, checked_level
from ottla.base.settings import BadSetting
from ottla.broker.route import Call, Route, answering, versions
from ottla.broker.setting_view import SettingView, SettingViews
from ottla.core.metadata.asks import (
    ConfigAlteration,
    ConfigChange,
    ConfigEdit,
    ConfigOp,
    ConfigReplacement,
    ResourceType,
)
from ottla.core.metadata.topics import check_topic_name
from ottla.runtime.controller import Controller
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.wire.messages.index import ApiKey
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

Change = TypeVar("Change", ConfigChange, ConfigReplacement)

_NOT_SERVED = {
    ResourceType.CLIENT_METRICS: "clients are not asked for metrics by this node",
}


class ConfigsApi:
    def __init__(self, controller: Controller, config: BrokerConfig) -> None:
        self._controller = controller
        self._me = str(int(config.node_id))
        self._views = SettingViews(config)

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(ApiKey.DESCRIBE_CONFIGS, versions(1, 4), self.describe),
            Route(ApiKey.ALTER_CONFIGS, versions(0, 2), self.replace),
            Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions(0, 1), self.edit),
            Route(ApiKey.LIST_CONFIG_RESOURCES, versions(0, 1), self.list_resources),
        )

    async def describe(self, call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
        """DescribeConfigs: every setting with its default. v3 adds types and documentation (KIP-569)."""
        ask = call.request
        response = DescribeConfigsResponse()
        # Named twice is answered once: a small request must not be able to ask for the long list a million times.
        for resource in {(each.resource_type, each.resource_name): each for each in ask.resources}.values():
            result = DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name)
            response.results.append(result)
            with answering(result):
                views = self._found(resource.resource_type, resource.resource_name)
                keys = frozenset(resource.configuration_keys or ())
                chosen = [view for view in views if not keys or view.row.name in keys]
                result.configs = [_described(view, ask) for view in chosen]
        return response

    def _found(self, kind: int, name: str) -> Iterable[SettingView]:
        image = self._controller.image
        if kind == ResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics_by_name:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
            return self._views.topic(image, image.topic_config(name))
        if kind == ResourceType.BROKER:
            if not name:
                return self._views.cluster(image)
            self._check_broker(name)
            return self._views.broker(image)
        if kind == ResourceType.GROUP:
            if not name:
                raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return self._views.group(image, name)
        if kind == ResourceType.BROKER_LOGGER:
            self._check_broker(name)
            return (self._views.log_level(),)
        raise _not_served(kind)

    def _check_broker(self, name: str) -> None:
        """A broker's settings are asked of that broker: only it knows what it was started with."""
        if not (name.isascii() and name.isdecimal()):
            raise Refused(ErrorCode.INVALID_REQUEST, f"a broker id is a number, not {name[:100]!r}")
        if name != self._me:
            raise Refused(ErrorCode.INVALID_REQUEST, f"this is broker {self._me}, not {name[:20]}")

    async def replace(self, call: Call[alter_configs.AlterConfigsRequest]) -> alter_configs.AlterConfigsResponse:
        """AlterConfigs, the old way: what is not named goes back to its default."""
        ask = call.request
        asks = [
            ConfigReplacement(each.resource_type, each.resource_name, tuple((c.name, c.value) for c in each.configs))
            for each in ask.resources
        ]
        done = await self._altered(
            asks, lambda some: self._controller.alter_configs(some, ask.validate_only), _refuse_log_level
        )
        answer = alter_configs.AlterConfigsResourceResponse
        return alter_configs.AlterConfigsResponse(
            responses=[answer(int(each.error), each.why, each.type, each.name) for each in done]
        )

    async def edit(
        self, call: Call[incremental_alter_configs.IncrementalAlterConfigsRequest]
    ) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
        """IncrementalAlterConfigs: set, delete, append to a list, subtract from a list (KIP-339)."""
        ask = call.request
        asks = [
            ConfigChange(
                each.resource_type,
                each.resource_name,
                tuple(ConfigEdit(c.name, c.config_operation, c.value) for c in each.configs),
            )
            for each in ask.resources
        ]
        done = await self._altered(
            asks,
            lambda some: self._controller.incremental_alter_configs(some, ask.validate_only),
            lambda one: self._edit_log_level(one, ask.validate_only),
        )
        answer = incremental_alter_configs.AlterConfigsResourceResponse
        return incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=[answer(int(each.error), each.why, each.type, each.name) for each in done]
        )

    async def _altered(
        self,
        asks: Sequence[Change],
        alter: Callable[[list[Change]], Awaitable[list[ConfigAlteration]]],
        alter_log_level: Callable[[Change], None],
    ) -> list[ConfigAlteration]:
        """One answer for each ask, in order: what is this broker's own business never reaches the controller."""
        settled: dict[int, ConfigAlteration] = {}
        for at, ask in enumerate(asks):
            try:
                self._check_alterable(ask.type, ask.name)
                if ask.type == ResourceType.BROKER_LOGGER:
                    alter_log_level(ask)
                    settled[at] = ConfigAlteration(ask.type, ask.name)
            except Refused as refusal:
                settled[at] = ConfigAlteration(ask.type, ask.name, refusal.code, refusal.why)
        wanted = [ask for at, ask in enumerate(asks) if at not in settled]
        try:
            decided = iter(await alter(wanted) if wanted else ())
        except Refused as refusal:
            decided = iter([ConfigAlteration(ask.type, ask.name, refusal.code, refusal.why) for ask in wanted])
        return [settled[at] if at in settled else next(decided) for at in range(len(asks))]

    def _edit_log_level(self, ask: ConfigChange, validate_only: bool) -> None:
        """KIP-412. Lasts as long as the process: the next start asks its own flags."""
        levels = []
        for edit in ask.edits:
            if edit.name != ROOT_LOGGER:
                raise Refused(ErrorCode.INVALID_CONFIG, f"Logger {edit.name[:249]} does not exist!")
            if edit.op != ConfigOp.SET or edit.value is None:
                raise Refused(ErrorCode.INVALID_REQUEST, "the log level of the root logger can only be set")
            try:
                levels.append(checked_level(edit.value))
            except BadSetting as bad:
                raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from None
        if levels and not validate_only:
            THRESHOLD.change(levels[-1])

    def _check_alterable(self, kind: int, name: str) -> None:
        if kind == ResourceType.TOPIC:
            if not name:
                raise Refused(
                    ErrorCode.INVALID_REQUEST, "there are no settings for all topics: set the brokers' defaults"
                )
        elif kind == ResourceType.BROKER:
            if name:
                self._check_broker(name)
        elif kind == ResourceType.BROKER_LOGGER:
            self._check_broker(name)
        elif kind != ResourceType.GROUP:
            raise _not_served(kind)

    async def list_resources(self, call: Call[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
        """ListConfigResources. v0 knows client metrics alone, of which there are none; v1 (KIP-1142) all kinds."""
        kinds = {ResourceType.CLIENT_METRICS} if call.version == 0 else set(call.request.resource_types)
        if not kinds <= set(ResourceType):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, "a kind of resource that is not known here")
        image = self._controller.image
        found: list[ConfigResource] = []
        if not kinds or ResourceType.BROKER in kinds:
            found += [ConfigResource(str(broker), ResourceType.BROKER) for broker in sorted(image.brokers)]
        if not kinds or ResourceType.TOPIC in kinds:
            found += [ConfigResource(name, ResourceType.TOPIC) for name in image.topics_by_name]
        if not kinds or ResourceType.BROKER_LOGGER in kinds:
            found.append(ConfigResource(self._me, ResourceType.BROKER_LOGGER))
        if not kinds or ResourceType.GROUP in kinds:
            named = sorted(name for kind, name in image.configs if kind == ResourceType.GROUP)
            found += [ConfigResource(name, ResourceType.GROUP) for name in named]
        return ListConfigResourcesResponse(config_resources=found)


def _refuse_log_level(ask: ConfigReplacement) -> None:
    raise Refused(ErrorCode.INVALID_REQUEST, "AlterConfigs is deprecated and does not support broker loggers")


def _not_served(kind: int) -> Refused:
    known = kind in set(ResourceType)
    return Refused(
        ErrorCode.INVALID_REQUEST, _NOT_SERVED[ResourceType(kind)] if known else f"resource type {kind} is unknown"
    )


def _described(view: SettingView, ask: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    row = view.row
    synonyms = [DescribeConfigsSynonym(s.name, s.value, int(s.source)) for s in view.synonyms]
    return DescribeConfigsResourceResult(
        row.name,
        view.value,
        view.is_read_only,
        int(view.source),
        row.is_sensitive,
        synonyms if ask.include_synonyms else [],
        int(row.kind),
        row.doc if ask.include_documentation else None,
    )
