#!/usr/bin/env bash
# Pins every dependency with its hashes, without naming a registry. Needs uv.
set -eu
cd "$(dirname "$0")/.."
compile=(uv pip compile pyproject.toml --universal --python-version 3.11.2 --generate-hashes --no-emit-index-url --quiet
         --custom-compile-command requirements/compile.sh "$@")
"${compile[@]}" --output-file requirements/runtime.txt
"${compile[@]}" --group dev --output-file requirements/dev.txt
"${compile[@]}" --extra history --constraints requirements/runtime.txt --output-file requirements/history.txt
# The site has an environment of its own, which Bayplan isn't in.
uv pip compile --group site --universal --python-version 3.11.2 --generate-hashes --no-emit-index-url --quiet \
    --custom-compile-command requirements/compile.sh --output-file requirements/site.txt "$@"
