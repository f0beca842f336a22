"""A setting that Kafka has and this node lists without acting on it, so that admin tools find what they expect."""

from ottla.base.settings import Kind, Reach, Setting

NOTE = "Accepted for compatibility; no effect on this node yet."
MAX_INT = str(2**31 - 1)
MAX_LONG = str(2**63 - 1)


def inert(name: str, kind: Kind, default: str | None, doc: str, reach: Reach = Reach.READ_ONLY) -> Setting:
    return Setting(name, kind, default, f"{doc} {NOTE}", reach=reach)
