"""Which partition of `__consumer_offsets` a group belongs to; clients and tools of others compute the same."""


def partition_for(group_id: str, partition_count: int) -> int:
    code = java_hash(group_id)
    return (0 if code == -(2**31) else abs(code)) % partition_count


def java_hash(text: str) -> int:
    """The hash of a Java string: over UTF-16 units, as a signed 32-bit integer."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    code = 0
    for unit in units:
        code = (code * 31 + unit) & 0xFFFFFFFF
    return code - 2**32 if code >= 2**31 else code
