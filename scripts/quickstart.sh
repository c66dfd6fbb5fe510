#!/usr/bin/env bash
# From a fresh machine to a first report: installs what is missing, builds,
# trains a small GPT on this machine's CPU under a dozen settings, draws the
# report. Run it again as often as you like.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

need_packages $TIDEMARK_PACKAGES

build=${TIDEMARK_BUILD:-build}
[ -f "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -DTIDEMARK_TESTS=OFF >"/tmp/tidemark-cmake.$$" 2>&1 || {
	cat "/tmp/tidemark-cmake.$$" >&2
	exit 70
}
rm -f "/tmp/tidemark-cmake.$$"
echo "building …" >&2
cmake --build "$build" >"$build/build.log" 2>&1 || { tail -40 "$build/build.log" >&2; exit 70; }

echo "running configs/quickstart.yaml …" >&2
"$build/tidemark" run configs/quickstart.yaml
echo
echo "report: $("$build/tidemark" report --out report/quickstart)"
