#!/usr/bin/env python3
"""prepare.py OUT: the source of the book, from docs/manual and the reference pages that its SUMMARY.md names.

A page of docs/manual keeps its place, a page of docs/ goes to reference/. Links between pages of the book lead to their
new places. A link to a file that the book does not have becomes its text: the book has no address of the repository.
A link to a page or a heading that does not exist ends the program with status 1 and its name.
"""
import os
import re
import shutil
import sys

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
DOCS = os.path.join(REPO, "docs")
MANUAL = os.path.join(DOCS, "manual")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.M | re.S)
CODE = re.compile(r"(``.+?``|`[^`\n]+`)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_external(target):
    return re.match(r"[a-z]+:", target) is not None


def slug(heading):
    """The anchor of a heading, as mdBook and GitHub make it."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text):
    found, times = set(), {}
    for heading in re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.M):
        name = slug(heading)
        found.add(name if name not in times else "%s-%d" % (name, times[name]))
        times[name] = times.get(name, 0) + 1
    return found


def place(path):
    """Where a file of docs/ lies in the book's source."""
    inside = os.path.relpath(path, MANUAL)
    if inside.startswith(".."):
        inside = os.path.join("reference", os.path.relpath(path, DOCS))
    return re.sub(r"README\.md$", "index.md", inside)


class Book:
    def __init__(self):
        self.broken = []
        summary = os.path.join(MANUAL, "SUMMARY.md")
        self.pages = [summary] + [
            os.path.realpath(os.path.join(MANUAL, target)) for _, _, target in LINK.findall(read(summary))
        ]
        self.files = set()  # what pages link and the book holds as it is
        for page in self.pages:
            if not os.path.isfile(page):
                self.broken.append("SUMMARY.md names %s, which is not there" % os.path.relpath(page, REPO))

    def link(self, page, match):
        image, text, target = match.groups()
        if is_external(target):
            return match.group(0)
        file, _, anchor = target.partition("#")
        path = os.path.realpath(os.path.join(os.path.dirname(page), file)) if file else page
        name = "%s: %s" % (os.path.relpath(page, REPO), target)
        if not os.path.exists(path):
            self.broken.append(name + ": no such file")
            return match.group(0)
        if anchor and path.endswith(".md") and anchor not in anchors(read(path)):
            self.broken.append(name + ": no such heading")
        is_ours = path.startswith(DOCS + os.sep) and os.path.isfile(path)
        if path not in self.pages and (not is_ours or path.endswith(".md") or not (image or path.startswith(MANUAL))):
            return text
        if path not in self.pages:
            self.files.add(path)
        new = os.path.relpath(place(path), os.path.dirname(place(page))) if file else ""
        return "%s[%s](%s)" % (image, text, new + ("#" + anchor if anchor else ""))

    def page(self, path):
        parts = FENCE.split(read(path))
        for i in range(0, len(parts), 2):
            # Inline code is set aside first, and comes back: it may look like a link, and a link's text may hold it.
            codes = []

            def aside(match):
                codes.append(match.group(0))
                return "\0%d\0" % (len(codes) - 1)

            text = LINK.sub(lambda match: self.link(path, match), CODE.sub(aside, parts[i]))
            parts[i] = re.sub("\0(\\d+)\0", lambda match: codes[int(match.group(1))], text)
        return "".join(parts)

    def write(self, out):
        for path in self.pages:
            if not os.path.isfile(path):
                continue
            text = self.page(path)
            target = os.path.join(out, "src", place(path))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
        for path in self.files:
            target = os.path.join(out, "src", place(path))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(path, target)
        shutil.copyfile(os.path.join(MANUAL, "book.toml"), os.path.join(out, "book.toml"))


def main():
    out = os.path.abspath(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    book = Book()
    book.write(out)
    written = {page for page in book.pages if page.startswith(MANUAL + os.sep)}
    for name in sorted(os.listdir(MANUAL)):
        if name.endswith(".md") and os.path.join(MANUAL, name) not in written:
            book.broken.append("docs/manual/%s is not in SUMMARY.md" % name)
    for line in book.broken:
        print("manual: broken link: " + line, file=sys.stderr)
    sys.exit(1 if book.broken else 0)


if __name__ == "__main__":
    main()
