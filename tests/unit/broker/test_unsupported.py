"""Every API of the protocol is served, or listed with the reason why it is not."""

import asyncio
from pathlib import Path
from typing import Any

from ottla.base.broker_settings import BrokerConfig
from ottla.base.own_client import OWN_CLIENT
from ottla.broker.server import Node
from ottla.broker.unsupported import UNSUPPORTED
from ottla.wire.frame import RequestHeader, decode_response_header, encode_request_header, finish_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.index import APIS, ApiKey
from ottla.wire.primitives import Buffer


async def advertised(directory: Path, client: str = OWN_CLIENT) -> dict[int, tuple[int, int]]:
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
    node = Node(BrokerConfig.from_texts(texts))
    await node.start()
    try:
        reader, writer = await asyncio.open_connection(node.host, node.port)
        out: Any = Buffer()
        encode_request_header(out, RequestHeader(int(ApiKey.API_VERSIONS), 4, 1, "test"), True)
        ApiVersionsRequest(client, "1").encode(out, 4)
        finish_request(out)
        writer.write(out)
        frame = memoryview(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))
        writer.close()
        _, at = decode_response_header(frame, 0, False)
        response, _ = ApiVersionsResponse.decode(frame, at, 4)
        return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    finally:
        await node.stop()


def test_every_api_is_served_or_listed_with_a_reason(tmp_path: Path) -> None:
    served = asyncio.run(advertised(tmp_path))
    assert {ApiKey(key) for key in served} | UNSUPPORTED.keys() == set(ApiKey)
    assert {ApiKey(key) for key in served} & UNSUPPORTED.keys() == set()
    assert all(UNSUPPORTED.values())


def test_what_is_served_is_served_in_all_settled_versions(tmp_path: Path) -> None:
    told = asyncio.run(advertised(tmp_path, "test"))
    expected = {key: (APIS[key].min_version, APIS[key].max_version) for key in told}
    expected[ApiKey.PRODUCE] = (0, 13)
    expected[ApiKey.INIT_PRODUCER_ID] = (0, 5)
    assert told == expected
