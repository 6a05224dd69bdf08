"""docs/variables.md and the help texts against the server: names, scopes, defaults, units. Called by manual.py."""
import re

# Columns of information_schema.system_variables.
COLUMNS = "variable_name, default_value, variable_scope, read_only, variable_comment, variable_type"
QUERY = "SELECT %s FROM information_schema.system_variables WHERE variable_name LIKE 'tidesdb\\_%%'" % COLUMNS

# What the page gives in words: the server's default depends on the release.
IN_WORDS = {"tidesdb_snapshot_conflicts"}
# A word of the help text by the name's end; a longer end counts first.
UNITS = [("_timeout_ms", "milliseconds"), ("_interval_us", "microseconds"), ("sync_interval", "microseconds"),
         ("cache_size", "bytes"), ("buffer_size", "bytes"), ("max_memory_usage", "bytes"), ("truncation_at", "bytes"),
         ("min_disk_space", "bytes"), ("tidesdb_ttl", "seconds"), ("bloom_fpr", "per 10,000"),
         ("density_trigger", "per 10,000")]
SCOPES = {"start": ("GLOBAL", "YES"), "live": ("GLOBAL", "NO"), "global": ("GLOBAL", "NO"),
          "session": ("SESSION", "NO")}


def number(text):
    """A default as the server has it: 256M is 268435456."""
    text = text.strip().strip("`")
    scaled = re.fullmatch(r"(\d+)([KMG])", text)
    if scaled:
        return str(int(scaled[1]) << {"K": 10, "M": 20, "G": 30}[scaled[2]])
    return text.replace(" ", "_").rstrip(".")


def same(page, server):
    page = number(page)
    if page == server or (page in ("", "empty") and server in ("", "NULL")):
        return True
    try:
        return float(page) == float(server)
    except ValueError:
        return page.upper() == server.upper()


def rows(section):
    """Cells of the table rows of a section."""
    for line in section.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def sections(page):
    found = {}
    for part in re.split(r"^#+ ", page, flags=re.M)[1:]:
        title, _, text = part.partition("\n")
        found[title] = text
    return found


def documented(page):
    """Name, default and scope (None: not said) of each variable that the page describes."""
    by_title = sections(page)
    for title in ("The store", "Transactions", "Full text"):
        for names, default, scope, _ in rows(by_title[title]):
            for name in re.findall(r"`(\w+[a-z]\d?)`", names):
                yield "tidesdb_" + name, default, scope
    for title in ("Table options", "Without effect"):
        for names, default, _ in rows(by_title[title]):
            found = re.findall(r"`(\w+)`", names)
            defaults = [part.strip() for part in default.split(",")]
            for place, name in enumerate(found):
                full = "tidesdb_" + ("default_" + name.lower() if name.isupper() else name)
                yield full, defaults[min(place, len(defaults) - 1)], None
    features = by_title["Features that are not there"].splitlines()
    for text in (line.split("|")[2] for line in features if line.startswith("| ") and "`" in line):
        prefix = "tidesdb_"
        waiting = []
        for name, rest in re.findall(r"`([^`]+)`([^`]*)", text):
            if name.endswith("_"):
                prefix = name
                continue
            if name.isupper():
                continue
            full = name if name.startswith("tidesdb_") else prefix + name
            waiting.append(full)
            said = re.match(r"\s*(\(empty\)|[A-Z]+\b|[\d.]+[KMG]?)", rest)
            if said:
                for one in waiting:
                    yield one, said[1].strip("()"), None
                waiting = []


def compare(page, server_rows, status):
    """What is wrong, a line each. `status`: names of SHOW GLOBAL STATUS."""
    wrong = []
    variables = {row[0].lower(): row[1:] for row in server_rows}
    seen = set()
    for name, default, scope in documented(page):
        seen.add(name)
        if name not in variables:
            # Options of a table without a variable.
            if not re.fullmatch(r"tidesdb_default_(ttl|encrypted|encryption_key_id)", name):
                wrong.append("%s is on the page, and not in the server" % name)
            continue
        of_server = variables[name]
        if name not in IN_WORDS and name != "tidesdb_default_sync_mode" and not same(default, of_server[0]):
            wrong.append("%s: the page's default is %s, the server's %s" % (name, default, of_server[0]))
        if scope and SCOPES.get(scope) != (of_server[1], of_server[2]):
            wrong.append("%s: the page says %s, the server %s, read-only %s" %
                         (name, scope, of_server[1], of_server[2]))
    for name, (default, _, _, comment, kind) in variables.items():
        option = name[len("tidesdb_default_"):].upper()
        if name not in seen and name[len("tidesdb_"):] not in page and option not in page:
            wrong.append("%s is not on the page" % name)
        text = comment.lower()
        if text.startswith(("no effect", "only the default")):
            continue
        unit = next((word for end, word in UNITS if name.endswith(end)), None)
        if unit and unit not in text:
            wrong.append("%s: the help text does not say %s: %s" % (name, unit, comment))
        for said in re.findall(r"default:? (\d+[KMG]?)\b", comment):
            if not same(said, default):
                wrong.append("%s: the help text's default is %s, the server's %s" % (name, said, default))
    text = page[page.index("# Status variables"):]
    for name in status:
        short = name.lower()[len("tidesdb_"):]
        if "`%s`" % short not in text:
            wrong.append("the status variable %s is not on the page" % name)
    shorts = {name.lower()[len("tidesdb_"):] for name in status}
    names = (name for line in text.splitlines() if line.startswith("| `")
             for name in re.findall(r"`(\w+[a-z])`", line.split("|")[1]))
    wrong += ["%s is on the page, and no status variable" % name for name in names if name not in shorts]
    return wrong
