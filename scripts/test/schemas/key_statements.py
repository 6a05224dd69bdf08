"""Statements that follow the foreign keys of a database, made from its metadata alone.

For each key: a row of the child with all the rows that it needs; the same row without its parent; a change to a
missing parent; a change and a deletion of the parent. Then rows that the schema brought with it are deleted, with a
look at each table below them. A line "@@ NUMBER STEP" stands before each step, NUMBER being the key's.
"""

import collections
import itertools

Column = collections.namedtuple("Column", "name data type nullable length generated")
Key = collections.namedtuple("Key", "name table columns parent parent_columns on_update on_delete")

WHOLE_NUMBERS = {"tinyint": 27, "smallint": 30000, "mediumint": 8000000, "int": 2000000000, "bigint": 2000000000}
# Above the numbers that schemas bring with them; SMALLINT may meet them, on both engines alike.
FIRST_NUMBER = 1000000
FIRST_TINYINT = 100
# A chain of parents longer than this is given up: it is a ring of columns that cannot be NULL.
DEEPEST = 12
ROWS_TO_DELETE = 2


def quoted(name):
    return "`%s`" % name.replace("`", "``")


def names(columns):
    return ", ".join(map(quoted, columns))


def text_of(number, length):
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return text[-length:] if length else text


def value(column, number):
    """A value of the column's type, another one for each number as far as the type goes."""
    data = column.data
    if data in WHOLE_NUMBERS:
        return str(number % WHOLE_NUMBERS[data] + (FIRST_TINYINT if data == "tinyint" else 1))
    if data in ("decimal", "float", "double"):
        return str(number % 9 + 1)
    if data in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"):
        return "'%s'" % text_of(number, column.length)
    if data in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
        return "X'%s'" % ("%016x" % number)[-2 * min(column.length or 8, 8) :]
    if data in ("enum", "set"):
        return column.type[column.type.index("(") + 1 :].split(",")[0].rstrip(")")
    constants = {
        "date": "'2024-01-02'", "datetime": "'2024-01-02 03:04:05'", "timestamp": "'2024-01-02 03:04:05'",
        "time": "'03:04:05'", "year": "2024", "bit": "b'1'", "inet6": "'::1'", "inet4": "'127.0.0.1'",
    }  # fmt: skip
    if data == "uuid":
        return "'00000000-0000-0000-0000-%012x'" % number
    return constants[data]


class NoChain(Exception):
    """The rows that a row needs cannot be made."""


class Statements:
    def __init__(self, columns, keys, primary, with_rows, settings=()):
        """columns: table to its Columns; primary: table to the names of its primary key; with_rows: tables that have
        some; settings: statements before all others."""
        self.columns, self.keys, self.primary, self.with_rows = columns, keys, primary, with_rows
        self.of_child, self.of_parent = collections.defaultdict(list), collections.defaultdict(list)
        for key in keys:
            self.of_child[key.table].append(key)
            self.of_parent[key.parent].append(key)
        self.numbers = itertools.count(FIRST_NUMBER)
        self.lines = list(settings)

    def column(self, table, name):
        return next(column for column in self.columns[table] if column.name == name)

    def row(self, table, wanted=(), fixed=None, needed_columns=(), depth=0):
        """Adds the rows that a new row of table needs, and returns its values. Keys in wanted refer to a parent; others do
        where their columns cannot be NULL. All that may be NULL is, but for needed_columns."""
        if depth > DEEPEST:
            raise NoChain(table)
        values = dict(fixed or {})
        number = next(self.numbers)
        for key in sorted(self.of_child[table], key=lambda key: key not in wanted):
            needed = key in wanted or not any(self.column(table, name).nullable for name in key.columns)
            if not needed or all(name in values for name in key.columns):
                continue
            given = {to: values[name] for name, to in zip(key.columns, key.parent_columns) if name in values}
            if key.parent == table and key not in wanted:
                # A row that refers to itself.
                for name, to in zip(key.columns, key.parent_columns):
                    values.setdefault(to, value(self.column(table, to), number))
                    values[name] = values[to]
                continue
            parent = self.row(key.parent, fixed=given, needed_columns=key.parent_columns, depth=depth + 1)
            self.insert(key.parent, parent)
            for name, to in zip(key.columns, key.parent_columns):
                values[name] = parent[to]
        for column in self.columns[table]:
            if column.name not in values and not column.generated:
                is_null = column.nullable and column.name not in needed_columns
                values[column.name] = "NULL" if is_null else value(column, number)
        return values

    def insert(self, table, values):
        listed = ", ".join(values.values())
        self.lines.append("INSERT INTO %s (%s) VALUES (%s);" % (quoted(table), names(values), listed))

    def missing(self, key):
        """Values of the key's columns that no parent has."""
        number = next(self.numbers)
        return {name: value(self.column(key.table, name), number) for name in key.columns}

    def step(self, number, name):
        self.lines.append("SELECT '@@ %d %s';" % (number, name))

    def look(self, key):
        """The child's rows: how many, and which they refer to."""
        self.lines.append(
            "SELECT COUNT(*), COUNT(%s), SUM(CRC32(CONCAT_WS('/', %s))) FROM %s;"
            % (quoted(key.columns[0]), names(key.columns), quoted(key.table))
        )

    def where(self, table, values, columns=None):
        # <=>: a key may have columns that are NULL.
        columns = columns or self.primary.get(table) or values
        return " AND ".join("%s <=> %s" % (quoted(name), values[name]) for name in columns)

    def follow(self, number, key):
        self.step(number, "chain")
        start = len(self.lines)
        try:
            row = self.row(key.table, wanted=(key,))
        except NoChain:
            del self.lines[start:]
            self.step(number, "nochain")
            return
        self.insert(key.table, row)
        self.look(key)
        parent = {to: row[name] for name, to in zip(key.columns, key.parent_columns)}
        of_parent = self.where(key.parent, parent, key.parent_columns)
        of_row = self.where(key.table, row, None if self.primary.get(key.table) else key.columns)

        self.step(number, "orphan")
        orphan = dict(row)
        fresh = next(self.numbers)
        # Other values where they must be unique; the other keys' columns stay.
        referring = {name for other in self.of_child[key.table] for name in other.columns}
        for column in self.columns[key.table]:
            if orphan.get(column.name, "NULL") != "NULL" and column.name not in referring:
                orphan[column.name] = value(column, fresh)
        orphan.update(self.missing(key))
        self.insert(key.table, orphan)
        self.step(number, "astray")
        changed = self.missing(key)
        assignments = ", ".join("%s = %s" % (quoted(name), changed[name]) for name in changed)
        self.lines.append("UPDATE %s SET %s WHERE %s;" % (quoted(key.table), assignments, of_row))
        self.look(key)

        self.step(number, "change")
        fresh = next(self.numbers)
        new = {name: value(self.column(key.parent, name), fresh) for name in key.parent_columns}
        self.lines.append("START TRANSACTION;")
        self.lines.append(
            "UPDATE %s SET %s WHERE %s;"
            % (quoted(key.parent), ", ".join("%s = %s" % (quoted(name), new[name]) for name in new), of_parent)
        )
        self.lines.append("SELECT ROW_COUNT();")
        self.look(key)
        self.lines.append("ROLLBACK;")
        self.look(key)

        self.step(number, "delete")
        self.lines.append("START TRANSACTION;")
        self.lines.append("DELETE FROM %s WHERE %s;" % (quoted(key.parent), of_parent))
        self.lines.append("SELECT ROW_COUNT();")
        self.look(key)
        self.lines.append("ROLLBACK;")
        self.step(number, "gone")
        self.look(key)
        self.lines.append("DELETE FROM %s WHERE %s;" % (quoted(key.parent), of_parent))
        self.look(key)
        self.lines.append("DELETE FROM %s WHERE %s;" % (quoted(key.table), of_row))
        self.lines.append("DELETE FROM %s WHERE %s;" % (quoted(key.parent), of_parent))

    def below(self, table):
        found, waiting = [], [table]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.append(at)
                waiting += [key.table for key in self.of_parent[at]]
        return sorted(found)

    def delete_rows(self, table):
        """Of the rows that were there: each way once in vain, then one for good."""
        order = names(self.primary.get(table) or [column.name for column in self.columns[table]])
        counts = " UNION ALL ".join("SELECT '%s', COUNT(*) FROM %s" % (at, quoted(at)) for at in self.below(table))
        for offset in range(ROWS_TO_DELETE):
            self.lines.append("START TRANSACTION;")
            self.lines += ["DELETE FROM %s ORDER BY %s LIMIT 1;" % (quoted(table), order)] * (offset + 1)
            self.lines.append("SELECT ROW_COUNT();")
            self.lines.append(counts + ";")
            self.lines.append("ROLLBACK;")
        self.lines.append("DELETE FROM %s ORDER BY %s DESC LIMIT 1;" % (quoted(table), order.replace(",", " DESC,")))
        self.lines.append(counts + ";")

    def all(self):
        for number, key in enumerate(self.keys):
            self.follow(number, key)
        for number, table in enumerate(sorted(self.of_parent)):
            if table in self.with_rows:
                self.step(len(self.keys) + number, "rows of " + table)
                self.delete_rows(table)
        return "\n".join(self.lines) + "\n"
