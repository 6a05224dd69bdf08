from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=60, unique=True)

    def __str__(self):
        return self.name


class Tag(models.Model):
    word = models.SlugField(unique=True)

    class Meta:
        ordering = ["id"]

    def __str__(self):
        return self.word


class Book(models.Model):
    title = models.CharField(max_length=150)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    tags = models.ManyToManyField(Tag, blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.PositiveIntegerField(default=0)
    added = models.DateTimeField()
    details = models.JSONField(default=dict, blank=True)
    cover = models.BinaryField(null=True, blank=True)
    shelf = models.CharField(max_length=10, default="")

    class Meta:
        ordering = ["title"]
        unique_together = [("author", "title")]
        indexes = [models.Index(fields=["shelf", "-added"], name="by_shelf")]

    def __str__(self):
        return self.title
