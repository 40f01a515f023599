class PageError(Exception):
    """What is wrong on a page and how to mend it; the shim adds which page."""

    def __init__(self, message, line=None):
        super().__init__(message)
        self.line = line
