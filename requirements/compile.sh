#!/usr/bin/env bash
# Pins every dependency with its hashes, without naming a registry. Needs uv.
set -eu
cd "$(dirname "$0")/.."
compile=(uv pip compile --universal --python-version 3.11.2 --generate-hashes --no-emit-index-url --quiet
         --custom-compile-command requirements/compile.sh "$@")
"${compile[@]}" pyproject.toml --output-file requirements/runtime.txt
"${compile[@]}" pyproject.toml --group dev --output-file requirements/dev.txt
"${compile[@]}" --group pyproject.toml:build --constraints requirements/dev.txt --output-file requirements/build.txt
"${compile[@]}" pyproject.toml --extra history --constraints requirements/runtime.txt --output-file requirements/history.txt
# The site has an environment of its own, which Bayplan isn't in.
"${compile[@]}" --group site --output-file requirements/site.txt
