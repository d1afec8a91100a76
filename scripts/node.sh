#!/bin/sh
# Fetches the Node clients with which test/node tests localcloud into .cache/,
# and prints the folder in which `node` finds them. Does nothing when they are
# there already; with --no-fetch it fails when they are not. They come from npm,
# through whatever registry npm is configured with; no script of a package is run.
set -eu

# The latest that run on Node.js 18 and 20.
PUBSUB=5.3.1
SPANNER=8.13.0

fail() {
	echo "node.sh: $*" >&2
	exit 1
}

command -v node >/dev/null 2>&1 || fail "node is missing; install Node.js 18 or later"
cache=$(cd "$(dirname "$0")/.." && pwd)/.cache
# The versions are part of the path, so that a new pin is fetched by itself.
target=$cache/node/pubsub-$PUBSUB-spanner-$SPANNER
if [ ! -d "$target" ]; then
	[ "${1:-}" != --no-fetch ] || fail "the clients are not in .cache yet; \`make test-node\` fetches them"
	command -v npm >/dev/null 2>&1 || fail "npm is missing; install Node.js with npm"
	mkdir -p "$cache/node"
	tmp=$(mktemp -d "$cache/node/fetch.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 1' INT TERM
	echo "fetching @google-cloud/pubsub@$PUBSUB and @google-cloud/spanner@$SPANNER with npm" >&2
	npm install --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --loglevel=error --prefix "$tmp" \
		"@google-cloud/pubsub@$PUBSUB" "@google-cloud/spanner@$SPANNER" >"$tmp/npm.log" 2>&1 || {
		cat "$tmp/npm.log" >&2
		fail "npm could not install them (its messages are above); check the registry in npm's configuration"
	}
	# Renamed as a whole, so that an interrupted run leaves nothing half done.
	# Where another run was first, its folder serves as well.
	mv -T "$tmp" "$target" 2>/dev/null || [ -d "$target" ] || mv "$tmp" "$target"
fi
echo "$target"
