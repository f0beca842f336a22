"""Every API of the protocol that this node does not serve, each with its reason. What is here is not advertised."""

from collections.abc import Mapping
from types import MappingProxyType

from ottla.wire.messages.index import ApiKey

_SECURITY = "listeners have no authentication yet"
_ACCESS = "access is not controlled yet"
_TOKENS = "delegation tokens need authentication, which is not there yet"
_SHARE = "share groups are not served yet"
_STREAMS = "streams groups are not served yet"
_CONTROLLER = "spoken between a cluster's nodes on the controllers' listener; one node asks itself directly"

UNSUPPORTED: Mapping[ApiKey, str] = MappingProxyType(
    {
        ApiKey.SASL_HANDSHAKE: _SECURITY,
        ApiKey.SASL_AUTHENTICATE: _SECURITY,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _SECURITY,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _SECURITY,
        ApiKey.DESCRIBE_ACLS: _ACCESS,
        ApiKey.CREATE_ACLS: _ACCESS,
        ApiKey.DELETE_ACLS: _ACCESS,
        ApiKey.CREATE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.RENEW_DELEGATION_TOKEN: _TOKENS,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: "clients have no quotas yet",
        ApiKey.ALTER_CLIENT_QUOTAS: "clients have no quotas yet",
        ApiKey.ALTER_REPLICA_LOG_DIRS: "a replica stays in the log directory where it was created",
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "clients that see this API send metrics, which nothing here collects",
        ApiKey.PUSH_TELEMETRY: "clients that see this API send metrics, which nothing here collects",
        ApiKey.SHARE_GROUP_HEARTBEAT: _SHARE,
        ApiKey.SHARE_GROUP_DESCRIBE: _SHARE,
        ApiKey.SHARE_FETCH: _SHARE,
        ApiKey.SHARE_ACKNOWLEDGE: _SHARE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: _SHARE,
        ApiKey.READ_SHARE_GROUP_STATE: _SHARE,
        ApiKey.WRITE_SHARE_GROUP_STATE: _SHARE,
        ApiKey.DELETE_SHARE_GROUP_STATE: _SHARE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _SHARE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _SHARE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: _SHARE,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: _SHARE,
        ApiKey.STREAMS_GROUP_HEARTBEAT: _STREAMS,
        ApiKey.STREAMS_GROUP_DESCRIBE: _STREAMS,
        ApiKey.VOTE: _CONTROLLER,
        ApiKey.BEGIN_QUORUM_EPOCH: _CONTROLLER,
        ApiKey.END_QUORUM_EPOCH: _CONTROLLER,
        ApiKey.FETCH_SNAPSHOT: _CONTROLLER,
        ApiKey.ALTER_PARTITION: _CONTROLLER,
        ApiKey.BROKER_REGISTRATION: _CONTROLLER,
        ApiKey.BROKER_HEARTBEAT: _CONTROLLER,
        ApiKey.ALLOCATE_PRODUCER_IDS: _CONTROLLER,
        ApiKey.CONTROLLER_REGISTRATION: _CONTROLLER,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _CONTROLLER,
        ApiKey.ENVELOPE: "every node is a controller here: nothing is forwarded on behalf of a client",
        ApiKey.ADD_RAFT_VOTER: "the quorum's voters are fixed",
        ApiKey.REMOVE_RAFT_VOTER: "the quorum's voters are fixed",
        ApiKey.UPDATE_RAFT_VOTER: "the quorum's voters are fixed",
    }
)
