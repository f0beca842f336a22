"""The name by which our own client makes itself known (KIP-511)."""

OWN_CLIENT = "ottla"
