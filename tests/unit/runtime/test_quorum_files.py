from pathlib import Path

import pytest

from ottla.core.metadata.records import FeatureLevelRecord, NoOpRecord
from ottla.core.quorum.effects import ElectionState
from ottla.core.quorum.messages import SnapshotId
from ottla.runtime.quorum_codec import (
    Voter,
    batches_of,
    decode_snapshot,
    encode_snapshot,
    leader_change_batch,
    metadata_batch,
    voters_record,
)
from ottla.runtime.quorum_files import BadQuorumState, QuorumFiles
from ottla.storage.files import Files
from ottla.wire.malformed import Malformed


def files(directory: Path) -> QuorumFiles:
    made = QuorumFiles(directory, Files())
    made.prepare()
    return made


def test_the_vote_is_remembered_in_apaches_words(tmp_path: Path) -> None:
    made = files(tmp_path)
    assert made.read_state() == ElectionState()
    made.write_state(ElectionState(2, voted_for=1), bytes(15) + b"\x07")
    path = tmp_path / "__cluster_metadata-0" / "quorum-state"
    assert path.read_text() == (
        '{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAABw","data_version":1}'
    )
    assert files(tmp_path).read_state() == ElectionState(2, 1, None)
    made.write_state(ElectionState(3, leader_id=2), None)
    assert made.read_state() == ElectionState(3, None, 2)


def test_the_vote_of_an_older_format_is_read(tmp_path: Path) -> None:
    made = files(tmp_path)
    text = (
        '{"clusterId":"","leaderId":1,"leaderEpoch":8,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text(text)
    assert made.read_state() == ElectionState(8, None, 1)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "{}", '{"leaderEpoch":"x","data_version":1}', '{"leaderEpoch":1}']
)
def test_a_vote_that_cannot_be_read_stops_the_node(tmp_path: Path, text: str) -> None:
    made = files(tmp_path)
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text(text)
    with pytest.raises(BadQuorumState):
        made.read_state()


def test_only_whole_snapshots_are_listed_and_remains_are_cleared(tmp_path: Path) -> None:
    made = files(tmp_path)
    for end in (30, 5):
        made.write_snapshot(SnapshotId(end, 2), [b"x"])
    inside = tmp_path / "__cluster_metadata-0"
    (inside / "00000000000000000040-0000000002.checkpoint.part").write_bytes(b"half")
    (inside / "00000000000000000001-0000000002.checkpoint.deleted").write_bytes(b"old")
    (inside / "7-2.checkpoint").write_bytes(b"no name of a snapshot")
    assert files(tmp_path).snapshots() == [SnapshotId(5, 2), SnapshotId(30, 2)]
    assert not list(inside.glob("*.part")) and not list(inside.glob("*.deleted"))
    made.remove_snapshot(SnapshotId(5, 2))
    assert made.snapshots() == [SnapshotId(30, 2)] and made.read_snapshot(SnapshotId(30, 2)) == b"x"


VOTERS = (Voter(1, b"d" * 16, (("CONTROLLER", "localhost", 9093),)), Voter(2, b"e" * 16))


def test_a_snapshot_is_read_back(tmp_path: Path) -> None:
    records = [FeatureLevelRecord(name=f"f{at}", feature_level=at) for at in range(25_000)]
    data = b"".join(encode_snapshot(records, voters_record(VOTERS), 3, 5))
    content = decode_snapshot(data)
    assert content.records == records
    assert content.voters is not None and [voter.voter_id for voter in content.voters.voters] == [1, 2]
    assert [b.base_offset for b in batches_of(data)][:3] == [0, 1, 3]
    plain = decode_snapshot(b"".join(encode_snapshot([], None, 0, 5)))
    assert (plain.records, plain.voters) == ([], None)


def test_a_snapshot_that_is_cut_off_or_damaged_is_refused() -> None:
    batches = list(encode_snapshot([NoOpRecord()], None, 3, 5))
    for cut in (batches[:-1], batches[1:], []):
        with pytest.raises(Malformed):
            decode_snapshot(b"".join(cut))
    damaged = bytearray(b"".join(batches))
    damaged[len(batches[0]) + 62] ^= 1
    with pytest.raises(Malformed):
        decode_snapshot(bytes(damaged))
    with pytest.raises(Malformed):
        decode_snapshot(b"".join(batches)[:-3])


def test_batches_carry_their_place_in_the_log() -> None:
    data = metadata_batch([NoOpRecord(), NoOpRecord()], 40, 6, 9) + leader_change_batch(1, VOTERS, (1,), (42, 7), 9)
    assert [(b.base_offset, b.end_offset, b.epoch) for b in batches_of(data)] == [(40, 42, 6), (42, 43, 7)]
    with pytest.raises(Malformed):
        batches_of(data[:-1] + b"?")
