"""A database on a server, by the client and mariadb-dump: scripts with their answers, metadata, dumps."""

import re
import subprocess
import sys

from key_statements import Column, Key, Statements, quoted

DATABASE = "app"
# Rows with the time of their insertion are the same with each engine.
NOW = 1750000000
ENGINE = re.compile(r"\bENGINE(\s*=\s*)(InnoDB|TidesDB)\b", re.IGNORECASE)
OURS = "TABLE_SCHEMA = '%s'" % DATABASE
TABLES = "information_schema.TABLES WHERE %s AND TABLE_TYPE = 'BASE TABLE'" % OURS

DEFINITIONS = (
    """SELECT CONSTRAINT_NAME, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, POSITION_IN_UNIQUE_CONSTRAINT,
    REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE
    WHERE TABLE_SCHEMA = '{0}' ORDER BY BINARY TABLE_NAME, BINARY CONSTRAINT_NAME, ORDINAL_POSITION""",
    """SELECT CONSTRAINT_NAME, TABLE_NAME, UNIQUE_CONSTRAINT_NAME, MATCH_OPTION, UPDATE_RULE, DELETE_RULE,
    REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS
    WHERE CONSTRAINT_SCHEMA = '{0}' ORDER BY BINARY TABLE_NAME, BINARY CONSTRAINT_NAME""",
    """SELECT CONSTRAINT_NAME, TABLE_NAME, CONSTRAINT_TYPE FROM information_schema.TABLE_CONSTRAINTS
    WHERE TABLE_SCHEMA = '{0}' ORDER BY BINARY TABLE_NAME, BINARY CONSTRAINT_NAME, CONSTRAINT_TYPE""",
    """SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = '{0}' ORDER BY BINARY TABLE_NAME, BINARY INDEX_NAME, SEQ_IN_INDEX""",
)
COLUMNS = """SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE,
    COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), IS_GENERATED
    FROM information_schema.COLUMNS JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME)
    WHERE TABLE_SCHEMA = '{0}' AND TABLE_TYPE = 'BASE TABLE' ORDER BY BINARY TABLE_NAME, COLUMNS.ORDINAL_POSITION"""
KEYS = """SELECT k.CONSTRAINT_NAME, k.TABLE_NAME, k.COLUMN_NAME, k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME,
    r.UPDATE_RULE, r.DELETE_RULE
    FROM information_schema.KEY_COLUMN_USAGE k JOIN information_schema.REFERENTIAL_CONSTRAINTS r
    ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.TABLE_NAME = k.TABLE_NAME AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME
    WHERE k.TABLE_SCHEMA = '{0}' AND k.REFERENCED_TABLE_NAME IS NOT NULL
    ORDER BY BINARY k.TABLE_NAME, BINARY k.CONSTRAINT_NAME, k.ORDINAL_POSITION"""
PRIMARY = """SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = '{0}' AND INDEX_NAME = 'PRIMARY' ORDER BY BINARY TABLE_NAME, SEQ_IN_INDEX"""


def with_engine(text, engine):
    return ENGINE.sub(r"ENGINE\g<1>" + engine, text)


def without_engine(text):
    """Nor the next number, which a row that was refused moves in one engine and not in the other."""
    return re.sub(r"(?m)^(\) ENGINE=\S+) AUTO_INCREMENT=\d+", r"\1", with_engine(text, "..."))


def unescaped(text):
    """A field of the client's batch output."""
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t", "0": "\0"}.get(match[1], match[1]), text)


class Server:
    def __init__(self, client, dump, socket):
        options = ["--no-defaults", "--user=root", "--socket=" + socket]
        self.client = [client, *options, "--default-character-set=utf8mb4", "--batch"]
        self.dump_program = [dump, *options, "--skip-comments", "--order-by-primary", "--hex-blob", "--skip-tz-utc"]

    def rows(self, query):
        done = subprocess.run([*self.client, "-N", "-e", query], check=True, stdout=subprocess.PIPE, text=True)
        return [list(map(unescaped, line.split("\t"))) for line in done.stdout.split("\n")[:-1]]

    def script(self, text, engine, force=False):
        """The answers, errors among them in their places."""
        options = ["--unbuffered", "--init-command=SET timestamp = %d, default_storage_engine = %s" % (NOW, engine)]
        done = subprocess.run(
            [*self.client, *options, *(["--force"] if force else []), DATABASE],
            input=text.encode("utf-8", "surrogateescape"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        answer = done.stdout.decode(errors="replace")
        if done.returncode and not force:
            sys.exit("%s: the schema does not load:\n%s" % (engine, answer[-2000:]))
        return answer

    def load(self, texts, engine):
        """A new database, with the engine in the place of the one that the texts name."""
        character_set = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        self.rows("DROP DATABASE IF EXISTS %s; CREATE DATABASE %s %s" % (DATABASE, DATABASE, character_set))
        for text in texts:
            self.script(with_engine(text, engine), engine)
        engines = {row[0] for row in self.rows("SELECT DISTINCT ENGINE FROM " + TABLES)}
        if engines != {engine}:
            sys.exit("tables of %s where only %s is expected" % (engines, engine))

    def drop(self):
        self.rows("DROP DATABASE " + DATABASE)

    def tables(self):
        return [row[0] for row in self.rows("SELECT TABLE_NAME FROM %s ORDER BY BINARY TABLE_NAME" % TABLES)]

    def definitions(self):
        text = ["\t".join(row) for query in DEFINITIONS for row in self.rows(query.format(DATABASE))]
        for table in self.tables():
            text += [row[1] for row in self.rows("SHOW CREATE TABLE %s.%s" % (DATABASE, quoted(table)))]
        return without_engine("\n".join(text) + "\n")

    def dump(self, tables=()):
        # Routines go with a whole database alone.
        options = [] if tables else ["--routines", "--triggers"]
        done = subprocess.run([*self.dump_program, *options, DATABASE, *tables], check=True, stdout=subprocess.PIPE)
        return done.stdout.decode("utf-8", "surrogateescape")

    def statements(self, settings):
        """The foreign keys, and the statements that follow them."""
        columns, keys, primary = {}, {}, {}
        for table, name, data, kind, nullable, length, generated in self.rows(COLUMNS.format(DATABASE)):
            column = Column(name, data, kind, nullable == "YES", int(length), generated == "ALWAYS")
            columns.setdefault(table, []).append(column)
        for name, table, column, parent, parent_column, on_update, on_delete in self.rows(KEYS.format(DATABASE)):
            key = keys.setdefault((table, name), Key(name, table, [], parent, [], on_update, on_delete))
            key.columns.append(column)
            key.parent_columns.append(parent_column)
        for table, column in self.rows(PRIMARY.format(DATABASE)):
            primary.setdefault(table, []).append(column)
        some = {table for table in columns if self.rows("SELECT 1 FROM %s.%s LIMIT 1" % (DATABASE, quoted(table)))}
        in_order = list(keys.values())
        return in_order, Statements(columns, in_order, primary, some, settings).all()
