import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Author",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
            ],
        ),
        migrations.CreateModel(
            "Tag",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("word", models.SlugField(unique=True)),
            ],
            options={"ordering": ["id"]},
        ),
        migrations.CreateModel(
            "Book",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(max_length=100, db_index=True)),
                (
                    "author",
                    models.ForeignKey(
                        "library.Author", django.db.models.deletion.CASCADE, related_name="books"
                    ),
                ),
                ("tags", models.ManyToManyField("library.Tag", blank=True)),
                ("cents", models.IntegerField()),
                ("stock", models.PositiveIntegerField(default=0)),
                ("added", models.DateTimeField()),
                ("details", models.JSONField(default=dict, blank=True)),
                ("cover", models.BinaryField(null=True, blank=True)),
                ("place", models.CharField(max_length=10, default="")),
            ],
            options={"ordering": ["title"]},
        ),
    ]
