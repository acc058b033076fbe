"""What ends a check: a fault of the certificate, or something that this checker cannot judge."""


class Refused(Exception):
    """A file cannot be read, or says something that this checker does not know: nothing was checked. One line."""


class Invalid(Exception):
    """The certificate does not prove the statement. One line that says what failed first, and where."""
