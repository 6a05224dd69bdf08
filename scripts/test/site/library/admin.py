from django.contrib import admin

from .models import Author, Book, Tag


@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    list_display = ("title", "author", "price", "stock")
    list_filter = ("shelf", "tags")
    search_fields = ("title", "author__name")
    date_hierarchy = "added"


admin.site.register([Author, Tag])
