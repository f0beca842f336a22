"""The pytest plugin: every project that has Ottla installed gets these fixtures."""
