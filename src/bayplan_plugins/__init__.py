"""The plugins of scheduler-plugins: what users of kube-scheduler compile in, with the same names, arguments, custom
resources, labels and annotations.

Each plugin is a file or a folder, and an entry point (in pyproject.toml). A profile has one if it names it. All of them
are written against the public API, as a plugin of the user's is (`docs/api.md`); an import contract checks that.
`docs/scheduler-plugins.md` has a row for each of them: what agrees, and what differs on purpose.
"""
