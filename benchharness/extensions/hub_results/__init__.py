"""Read the results that models publish on the Hugging Face Hub, and describe its benchmarks."""

from benchharness.extension import Command, Extension

EXTENSION = Extension(
    name="hub_results",
    package=__name__,
    needs=("exports",),
    commands={
        "show eval-yaml": Command(
            "eval_yaml:show_eval_yaml",
            "Print the eval.yaml of a data set, which makes it a benchmark of the hub.",
            "show eval-yaml glue",
        ),
    },
    options={
        "db import": "import_option:with_repositories",
        "export": "export_option:with_imported",
        "show published": "published_option:with_hub",
    },
)
