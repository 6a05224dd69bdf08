"""What a site changes later, on tables with rows: an index less, a longer text, a computed column, other names."""

from django.db import migrations, models


def prices(apps, schema_editor):
    for book in apps.get_model("library", "Book").objects.all():
        book.price = book.cents / 100
        book.save(update_fields=["price"])


class Migration(migrations.Migration):
    dependencies = [("library", "0001_first")]
    operations = [
        migrations.AlterField("Book", "title", models.CharField(max_length=150)),
        migrations.AddField("Book", "price", models.DecimalField(max_digits=8, decimal_places=2, null=True)),
        migrations.RunPython(prices),
        migrations.AlterField("Book", "price", models.DecimalField(max_digits=8, decimal_places=2)),
        migrations.RemoveField("Book", "cents"),
        migrations.RenameField("Book", "place", "shelf"),
        migrations.AlterUniqueTogether("Book", {("author", "title")}),
        migrations.AddIndex("Book", models.Index(fields=["shelf", "-added"], name="by_shelf")),
    ]
