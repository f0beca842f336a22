"""What all rooms share. Fixtures that only one room needs stand in that room's own conftest."""

from hypothesis import HealthCheck, settings

# A slow machine must not turn a property into a timing test; a failure prints what replays it.
settings.register_profile("ottla", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")
