"""Plugins: somebody's models, tasks and metrics, from a Python file or an installed package."""

from benchharness.plugins.load import GROUP, VARIABLE, load_plugins, plugins_of

__all__ = ["GROUP", "VARIABLE", "load_plugins", "plugins_of"]
