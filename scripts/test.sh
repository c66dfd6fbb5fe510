#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, runs
# everything. Ends with ctest's summary and a non-zero code on any failure.
#
#   scripts/test.sh            everything (what CI runs)
#   scripts/test.sh quick      without the sanitizer and fuzzing passes
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need_packages $TIDEMARK_PACKAGES $TIDEMARK_TEST_PACKAGES
# libFuzzer and the sanitizers of clang come in a package of clang's version.
need_packages "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"

what=${1:-all}
jobs=$(nproc)

configure() { # DIR OPTIONS…: once; CMake looks after later changes itself
	local dir=$1
	shift
	[ -f "$dir/build.ninja" ] && return 0
	cmake -S . -B "$dir" -G Ninja "$@" >"/tmp/tidemark-cmake.$$" 2>&1 || {
		cat "/tmp/tidemark-cmake.$$" >&2
		exit 1
	}
	rm -f "/tmp/tidemark-cmake.$$"
}

build() { # DIR TARGET
	echo "== building $1" >&2
	cmake --build "$1" -j "$jobs" --target "$2" >"$1/build.log" 2>&1 || { grep -E "error|warning|FAILED" "$1/build.log" | head -40 >&2; exit 1; }
}

configure build-test -DTIDEMARK_FAULTS=ON
build build-test all

if [ "$what" = all ]; then
	configure build-asan -DTIDEMARK_FAULTS=ON -DTIDEMARK_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug
	build build-asan unit_tests
	export CC=clang
	configure build-fuzz -DTIDEMARK_FUZZ=ON -DTIDEMARK_TESTS=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo
	unset CC
	build build-fuzz fuzzers
	echo "== fuzzing" >&2
	scripts/fuzz.sh build-fuzz
	echo "== unit tests under address and undefined-behaviour sanitizers" >&2
	ctest --test-dir build-asan -L unit -LE slow -j "$jobs" --output-on-failure --no-tests=error
fi

echo "== all tests" >&2
ctest --test-dir build-test -j "$jobs" --output-on-failure --no-tests=error
