#!/usr/bin/env bash
# Runs each fuzz target of the module for a while, one after the other, since
# `go test -fuzz` takes one target of one package.
#
#   scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-5s}
count=0
while IFS=: read -r file target; do
	echo "== $(dirname "$file") $target"
	# In a short run, minimizing what is merely interesting would take all the time.
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "./$(dirname "$file")"
	count=$((count + 1))
done < <(git grep --untracked -oE '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' | sed 's/func //' | sort)

echo "$count fuzz targets, $time each"
[ "$count" -gt 0 ]
