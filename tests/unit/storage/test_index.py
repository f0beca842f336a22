from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.files import Files
from ottla.storage.index import OFFSET_ENTRY, TIME_ENTRY, EntryFile


def index(path: Path) -> EntryFile:
    files = Files()
    files.write(str(path), b"")
    return EntryFile(files.lazy(str(path)), OFFSET_ENTRY, 0)


def filled(path: Path, count: int, *, written: int) -> EntryFile:
    """Entries (3i, 10i), the first `written` of them in the file."""
    entries = index(path)
    for number in range(count):
        entries.append(3 * number, 10 * number)
        if number == written - 1:
            entries.write_out()
    return entries


@pytest.mark.parametrize("written", [0, 1, 511, 512, 513, 1500, 2000])
def test_the_floor_is_found_in_the_file_and_in_memory(tmp_path: Path, written: int) -> None:
    entries = filled(tmp_path / "i", 2000, written=written)
    for column, step in ((0, 3), (1, 10)):
        assert entries.floor(column, -1) is None
        for bound in [*range(40), *range(1500, 1560), *range(4490, 4520), 5996, 5997, 10**6]:
            number = min(bound // step, 1999)
            assert entries.floor(column, bound) == (3 * number, 10 * number)


@given(st.lists(st.tuples(st.integers(0, 700), st.booleans()), min_size=1, max_size=30), st.data())
def test_an_index_is_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]], data: st.DataObject
) -> None:
    entries, model = index(tmp_path_factory.getbasetemp() / "index"), list[tuple[int, int]]()
    for step, (count, is_written) in enumerate(steps):
        for _ in range(count):
            last = model[-1] if model else (0, 0)
            model.append((last[0] + 1 + step % 3, last[1] + 1 + step))
            entries.append(*model[-1])
        if is_written:
            entries.write_out()
        if step % 3 == 2:
            bound = data.draw(st.integers(0, 2 * len(model) + 5))
            entries.keep_below(0, bound)
            model = [entry for entry in model if entry[0] < bound]
        bound = data.draw(st.integers(0, 2 * len(model) + 5))
        below = bisect_right(model, bound, key=lambda entry: entry[0])
        assert entries.floor(0, bound) == (model[below - 1] if below else None)
    assert list(entries) == model
    assert (entries.count, entries.last) == (len(model), model[-1] if model else None)
    entries.seal()
    assert (tmp_path_factory.getbasetemp() / "index").read_bytes() == b"".join(OFFSET_ENTRY.pack(*e) for e in model)


def test_entries_have_eight_and_twelve_bytes() -> None:
    assert (OFFSET_ENTRY.size, TIME_ENTRY.size) == (8, 12)


def test_an_index_that_is_asked_beyond_its_end_says_so(tmp_path: Path) -> None:
    with pytest.raises(IndexError):
        filled(tmp_path / "i", 3, written=2)[3]
