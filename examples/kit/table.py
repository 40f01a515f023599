"""The table: rows as text, as they come."""


def report(rows, header, line):
    """Print line(row) of each row as it comes, where there is one, and header(part) above each part; returns the rows as a list."""
    kept = []
    for row in rows:
        if not kept or kept[-1]["part"] != row["part"]:
            print(header(row["part"]), flush=True)
        kept.append(row)
        if line(row):
            print(line(row), flush=True)
    return kept


def yes_no(flag):
    return "yes" if flag else "no"


def cell(value, width, digits=1):
    """A number in a column; a dash where nothing was measured."""
    return f"{value:{width}.{digits}f}" if value is not None else "-".rjust(width)
