#!/usr/bin/env python3
"""use.py fill|change|read: a small site in Django on TidesDB, used as people use one. packages-inside.sh calls it in a
chroot.

fill    rows by the tables' first form, between the two migrations
change  pages of the administration, transactions, locks, refused rows
read    all rows, as text: the same text before a restart and after it

Each ends with status 0, or with the assertion that does not hold.
"""

import datetime
import decimal
import hashlib
import os
import sys
import threading

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.core import serializers  # noqa: E402
from django.db import IntegrityError, connection, transaction  # noqa: E402
from django.db.models import Avg, Count, F, Q, Sum  # noqa: E402
from django.test import Client  # noqa: E402

from library.models import Author, Book, Tag  # noqa: E402

BOOKS = 500
DAY_ONE = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)


def fill():
    """By SQL: the models have the later form."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO library_author (id, name) VALUES (%s, %s)", [(n, f"Author {n} é") for n in range(1, 21)]
        )
        tags = [(n, f"tag-{n}") for n in range(1, 11)]
        cursor.executemany("INSERT INTO library_tag (id, word) VALUES (%s, %s)", tags)
        cursor.executemany(
            "INSERT INTO library_book (title, author_id, cents, stock, added, details, cover, place)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    f"Book {n:04}",
                    1 + n % 20,
                    100 * n + 50,
                    n % 7,
                    DAY_ONE + datetime.timedelta(hours=n),
                    f'{{"pages": {n}}}',
                    bytes([n % 256]) * n,
                    f"s{n % 5}",
                )
                for n in range(BOOKS)
            ],
        )
        cursor.execute("INSERT INTO library_book_tags (book_id, tag_id) SELECT id, 1 + id % 10 FROM library_book")


def pages():
    User.objects.create_superuser("root", "root@example.org", "secret")
    browser = Client()
    assert not browser.login(username="root", password="wrong")
    assert browser.login(username="root", password="secret")

    def page(path, data=None, holds=None):
        answer = browser.post(path, data, follow=True) if data else browser.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        text = answer.content.decode()
        assert holds is None or holds in text, (path, holds, text)

    page("/admin/", holds="Books")
    page("/admin/library/book/", holds=f"{BOOKS} books")
    # All 25 of Author 13, and one with the number in its title.
    page("/admin/library/book/?q=author+13&shelf=s2", holds="26 results")
    page("/admin/library/book/?tags__id__exact=4&added__year=2026", holds=f"{BOOKS // 10} results")
    user = {"username": "reader", "password1": "a-long-one-8", "password2": "a-long-one-8"}
    page("/admin/auth/user/add/", user, "was added successfully")
    page("/admin/auth/user/add/", user, "already exists")
    page("/admin/library/author/add/", {"name": "Författare Ö"}, "was added successfully")
    page("/admin/library/author/add/", {"name": "FÖRFATTARE ö"}, "already exists")
    book = Book.objects.get(title="Book 0007")
    form = {
        "title": "Book 0007, second edition",
        "author": book.author_id,
        "tags": [1, 2, 3],
        "price": "9.99",
        "stock": 70,
        "added_0": "2026-06-01",
        "added_1": "10:00:00",
        "details": '{"pages": 7, "edition": {"number": 2}}',
        "shelf": "s9",
    }
    page(f"/admin/library/book/{book.pk}/change/", form, "was changed successfully")
    page(f"/admin/library/book/{book.pk}/history/", holds="root")
    # The author's books and their tags go too: Django's own cascade.
    last = Author.objects.get(name="Author 20 é")
    page(f"/admin/library/author/{last.pk}/delete/", {"post": "yes"}, "was deleted successfully")
    ten = list(Book.objects.filter(shelf="s4").values_list("pk", flat=True)[:10])
    data = {"action": "delete_selected", "post": "yes", "_selected_action": ten}
    page("/admin/library/book/", data, "deleted 10 books")


def queries():
    assert Book.objects.count() == BOOKS - BOOKS // 20 - 10
    assert not Book.tags.through.objects.exclude(book__in=Book.objects.all()).exists()
    assert Book.objects.get(details__edition__number=2).tags.count() == 3
    assert Book.objects.filter(Q(price__gte=400) | Q(stock=70)).aggregate(n=Count("pk"), sum=Sum("price"))["n"] > 50
    assert Book.objects.order_by("shelf", "-added").filter(shelf="s1").first().title == "Book 0496"
    assert bytes(Book.objects.get(title="Book 0300").cover) == bytes([300 % 256]) * 300
    by_author = Author.objects.annotate(n=Count("books"), mean=Avg("books__price")).filter(n__gt=0).order_by("-n")
    assert sum(author.n for author in by_author) == Book.objects.count()
    assert isinstance(by_author[0].mean, decimal.Decimal)
    group = Group.objects.create(name="staff")
    group.permissions.set(Permission.objects.filter(content_type__app_label="library"))
    reader = User.objects.get(username="reader")
    reader.groups.add(group)
    assert reader.has_perm("library.change_book") and not reader.has_perm("auth.add_user")
    assert Tag.objects.update_or_create(word="tag-1", defaults={"word": "first"})[1] is False
    Tag.objects.bulk_create([Tag(word="first"), Tag(word="eleventh")], ignore_conflicts=True)
    assert sorted(Tag.objects.values_list("word", flat=True))[:3] == ["eleventh", "first", "tag-10"]


def transactions():
    before = Book.objects.get(title="Book 0001")
    try:
        with transaction.atomic():
            Book.objects.filter(pk=before.pk).update(stock=F("stock") + 1000)
            try:
                with transaction.atomic():  # a savepoint
                    Book.objects.create(title=before.title, author=before.author, price=1, added=DAY_ONE)
            except IntegrityError:
                pass
            else:
                raise AssertionError("the same title twice")
            assert Book.objects.get(pk=before.pk).stock == before.stock + 1000
            raise KeyError
    except KeyError:
        pass
    assert Book.objects.get(pk=before.pk).stock == before.stock

    # Four buyers, each twenty-five times: no sale is lost.
    def buy():
        try:
            for _ in range(25):
                with transaction.atomic():
                    book = Book.objects.select_for_update().get(pk=before.pk)
                    book.stock += 1
                    book.save(update_fields=["stock"])
        except Exception as error:  # the thread's end is looked at below
            errors.append(error)
        finally:
            connection.close()

    errors = []
    buyers = [threading.Thread(target=buy) for _ in range(4)]
    for buyer in buyers:
        buyer.start()
    for buyer in buyers:
        buyer.join()
    assert not errors, errors
    assert Book.objects.get(pk=before.pk).stock == before.stock + 100


def read():
    """A line for each table: rows, and a sum of them in Django's own form of export."""
    for model in sorted(django.apps.apps.get_models(include_auto_created=True), key=lambda m: m._meta.label):
        if model._meta.label == "sessions.Session":
            continue
        rows = serializers.serialize("json", model.objects.order_by("pk"))
        print(model._meta.label, model.objects.count(), hashlib.sha256(rows.encode()).hexdigest()[:16])


def change():
    pages()
    queries()
    transactions()


{"fill": fill, "change": change, "read": read}[sys.argv[1]]()
