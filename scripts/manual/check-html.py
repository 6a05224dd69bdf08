#!/usr/bin/env python3
"""check-html.py DIR: every link in the book that mdBook made leads to a file of it, and to an id in that file."""
import os
import sys
from html.parser import HTMLParser
from urllib.parse import unquote


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id") or attributes.get("name"))
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append(attributes[name])


def main():
    root = os.path.realpath(sys.argv[1])
    pages = {}
    for folder, _, files in os.walk(root):
        for name in files:
            # All pages in one, and the page for a server's missing files, whose links start elsewhere.
            if name.endswith(".html") and name not in ("print.html", "404.html", "toc.html"):
                path = os.path.join(folder, name)
                pages[path] = Page(path)
    broken, links = [], 0
    for path, page in pages.items():
        for link in page.links:
            if ":" in link.split("/")[0]:
                continue
            links += 1
            file, _, anchor = unquote(link).partition("#")
            target = os.path.realpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(target):
                broken.append("%s: %s: no such file" % (os.path.relpath(path, root), link))
            elif anchor and target in pages and anchor not in pages[target].ids:
                broken.append("%s: %s: no such id" % (os.path.relpath(path, root), link))
    for line in broken:
        print("manual: broken link in " + line, file=sys.stderr)
    print("manual: %d pages, %d links" % (len(pages), links))
    sys.exit(1 if broken or len(pages) < 10 else 0)


if __name__ == "__main__":
    main()
