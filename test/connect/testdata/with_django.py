# Runs a query as a Django application with the settings of the current directory.
import os, sys

sys.path.insert(0, os.getcwd())
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django
from django.db import connection

django.setup()
with connection.cursor() as cursor:
    cursor.execute("SELECT DATABASE()")
    print("connected to", cursor.fetchone()[0])
    cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    print(cursor.fetchone()[1])
