#!/bin/sh
# Sees to it that a Docker engine answers, for `make test-containers` on a bare
# Debian machine such as a CI runner. Does nothing when one answers already.
# Otherwise it installs Debian's docker.io when there is no dockerd, starts
# dockerd and leaves it running; both need root.
#
# DOCKERD_LOG is where dockerd's log goes, /var/log/dockerd.log if unset.
set -eu

log=${DOCKERD_LOG:-/var/log/dockerd.log}
seconds=60

fail() {
	echo "dockerd.sh: $*" >&2
	exit 1
}

# Also fails without the docker command.
answers() { docker version >/dev/null 2>&1; }

# The reason stands in the last lines.
fail_with_log() {
	echo "dockerd.sh: $*; the end of $log:" >&2
	tail -n 20 "$log" >&2 || true
	exit 1
}

if answers; then
	exit 0
fi
if [ -n "${DOCKER_HOST:-}" ]; then
	fail "nothing answers at DOCKER_HOST=$DOCKER_HOST; start that engine, or unset DOCKER_HOST"
fi
[ "$(id -u)" = 0 ] || fail "no Docker engine answers, and to start one takes root; start Docker, or run this as root"
: >>"$log" || fail "cannot write $log; set DOCKERD_LOG to another file"

if ! command -v dockerd >/dev/null 2>&1 || ! command -v docker >/dev/null 2>&1; then
	command -v apt-get >/dev/null 2>&1 || fail "dockerd or the docker command is missing, and this is not Debian; install Docker"
	packages=docker.io
	apt-get update -qq >>"$log" 2>&1 || fail_with_log "apt-get update did not work"
	# From Debian 13 on, the command is a package of its own.
	if apt-cache show docker-cli >/dev/null 2>&1; then
		packages="docker.io docker-cli"
	fi
	# shellcheck disable=SC2086 # two packages are two arguments
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >>"$log" 2>&1 ||
		fail_with_log "apt-get install $packages did not work"
	# Where there is an init system, the package has started it.
	if answers; then
		exit 0
	fi
fi

# Away from this script's session, so that it outlives it.
setsid nohup dockerd >>"$log" 2>&1 </dev/null &
pid=$!
while ! answers; do
	kill -0 "$pid" 2>/dev/null || fail_with_log "dockerd ended at its start"
	seconds=$((seconds - 1))
	if [ "$seconds" -lt 0 ]; then
		kill "$pid" 2>/dev/null || true
		fail_with_log "dockerd was started and does not answer"
	fi
	sleep 1
done
echo "dockerd.sh: started dockerd (process $pid), log in $log"
