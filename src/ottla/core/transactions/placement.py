"""How the coordinator of a group commit is found: like that of a transactional id, under a key of its own."""


def commit_key(sink: str, query: str) -> str:
    return f"{sink}\x00{query}"
