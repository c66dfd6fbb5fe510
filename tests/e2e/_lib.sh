# What every end-to-end script sources. Gives $TMP (removed at the end), tm
# (the built program on a database of its own), and checks that say what they
# wanted. A script prints "skipped: why" and exits 77 where it cannot run.
set -u

BUILD=${TIDEMARK_BUILD:?the build folder}
SOURCE=${TIDEMARK_SOURCE:?the source folder}
TMP=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-e2e.XXXXXX")
trap 'chmod -R u+w "$TMP" 2>/dev/null; rm -rf "$TMP"' EXIT
export TIDEMARK_DB=$TMP/t.db
unset TIDEMARK_FAULT TIDEMARK_FORMAT TIDEMARK_COLOR PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
cd "$TMP" || exit 1
failures=0

tm() { "$BUILD/tidemark" "$@"; }

fail() {
	echo "FAIL: $*" >&2
	failures=$((failures + 1))
}

skip() {
	echo "skipped: $*"
	exit 77
}

# expect CODE COMMAND…: runs it, keeps out and err in $TMP, compares the code.
expect() {
	local want=$1 got
	shift
	"$@" >"$TMP/out" 2>"$TMP/err" </dev/null
	got=$?
	if [ "$got" != "$want" ]; then
		fail "exit $got, expected $want: $(printf '%s' "$*" | cut -c1-200)"
		sed 's/^/    /' "$TMP/err" | head -12 >&2
	fi
}

# says TEXT: the last command's stderr has it; answers TEXT: its stdout.
says() { grep -qF -- "$1" "$TMP/err" || { fail "stderr lacks: $1"; sed 's/^/    /' "$TMP/err" | head -8 >&2; }; }
answers() { grep -qF -- "$1" "$TMP/out" || { fail "stdout lacks: $1"; sed 's/^/    /' "$TMP/out" | head -8 >&2; }; }
equal() { [ "$1" = "$2" ] || fail "$3: got '$1', expected '$2'"; }
sql() { sqlite3 -batch "$TIDEMARK_DB" "$1"; }

# Processes that carry a run id of this test in their environment.
survivors() {
	local p n=0
	for p in /proc/[0-9]*; do
		if { tr '\0' '\n' <"$p/environ"; } 2>/dev/null | grep -q "^TIDEMARK_TEST=$TMP\$" &&
			{ tr '\0' '\n' <"$p/environ"; } 2>/dev/null | grep -q '^TIDEMARK_RUN='; then
			case $({ cut -d' ' -f3 "$p/stat"; } 2>/dev/null) in Z | '') ;; *) n=$((n + 1)) ;; esac
		fi
	done
	echo "$n"
}
export TIDEMARK_TEST=$TMP

finish() {
	if [ "$failures" -gt 0 ]; then
		echo "$failures checks failed" >&2
		exit 1
	fi
	echo "ok"
}
