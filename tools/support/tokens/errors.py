"""The one kind of error that the token tool reports."""


class UserError(Exception):
    """What a user can mend: reported as one line, exit status 2."""


def one_line(error):
    return " ".join(str(error).split())
