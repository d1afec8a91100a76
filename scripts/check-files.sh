#!/usr/bin/env bash
# Checks what no linter does: Go files stop at 500 lines, main() at 40.
set -euo pipefail
cd "$(dirname "$0")/.."

max_file=500
max_main=40
bad=0

while IFS= read -r -d '' file; do
	[ -f "$file" ] || continue # deleted, not yet committed
	lines=$(wc -l <"$file")
	if [ "$lines" -gt "$max_file" ]; then
		echo "$file: $lines lines, at most $max_file: split it" >&2
		bad=1
	fi
	main=$(awk '/^func main\(\)/ { start = NR } start && /^}/ { print NR - start + 1; exit }' "$file")
	if [ "${main:-0}" -gt "$max_main" ]; then
		echo "$file: main() has $main lines, at most $max_main: move work to run()" >&2
		bad=1
	fi
done < <(git ls-files -z --cached --others --exclude-standard -- '*.go')

exit "$bad"
