"""The pytest plugin of the package: it loads the plugins that extensions name.

pytest loads this module in every environment that has the package, so it imports only the tables of
the extensions.
"""

from benchharness.discovery import extensions

pytest_plugins = [
    f"{each.package}.{module}" for each in extensions() for module in each.pytest_plugins
]
