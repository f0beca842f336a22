"""How this room says that something outside is not as it must be."""


class NotReady(Exception):
    """Something that the user can put right; the text says what and how, in a few words and without a stack trace."""
