"""The pytest plugin of benchharness, which loads the pytest plugins of its extensions.

pytest imports this module in every environment in which benchharness is installed, so the module
must not import anything large.
"""

from benchharness.discovery import extensions

pytest_plugins = [
    f"{each.package}.{module}" for each in extensions() for module in each.pytest_plugins
]
