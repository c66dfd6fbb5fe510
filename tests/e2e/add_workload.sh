#!/bin/bash
# Adding a workload touches at most four files. The files are the ones that
# docs/adding-a-workload.md shows: taken from the page, put into a copy of the
# sources, built and tested there, so that the page cannot go out of date.
. "$(dirname "$0")/_lib.sh"

page=$SOURCE/docs/adding-a-workload.md
tree=$TMP/tree
command -v cmake >/dev/null || skip "cmake is not here"

mkdir "$tree"
for part in CMakeLists.txt cmake harness workloads tests configs docs; do
	cp -r "$SOURCE/$part" "$tree/" || exit 1
done
mkdir -p "$tree/configs"
cp -r "$tree" "$TMP/before"

# A block that opens with a language and a path is that file.
awk -v tree="$tree" '
	/^```[a-z]+ [^ ]+$/ { file = tree "/" $2; next }
	/^```$/ { file = "" }
	file { print > file }
' "$page"

touched=$(diff -rq "$TMP/before" "$tree" | wc -l)
[ "$touched" -ge 2 ] || fail "the page shows $touched files"
[ "$touched" -le 4 ] || fail "adding a workload touches $touched files, at most 4 are allowed"
diff -rq "$TMP/before" "$tree" | grep -v '^Only in' && fail "an existing file had to be changed"

generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$BUILD/CMakeCache.txt")
if ! cmake -S "$tree" -B "$TMP/build" -G "$generator" -DTIDEMARK_TESTS=ON >"$TMP/log" 2>&1 ||
	! cmake --build "$TMP/build" -j2 --target tidemark-work --target unit_workloads_test_toy >>"$TMP/log" 2>&1; then
	fail "the copy does not build"
	tail -20 "$TMP/log" >&2
	finish
fi

expect 0 "$TMP/build/tidemark-work" --describe
answers '"name":"toy"'
answers '"help":"length of the vectors"'
answers '"name":"gpt"'
expect 0 "$TMP/build/unit_workloads_test_toy"
if "$BUILD/tidemark-work" --describe | grep -q '"name":"toy"'; then
	fail "toy is part of the product"
fi
finish
