# Bad specs: exit 20 with the place, nothing run, no row, no file, quickly and
# in little memory (100 ms and 16 MiB; the time is printed, the memory
# is checked).
. "$(dirname "$0")/_lib.sh"

cat >peak.py <<'P'
# Runs a command; prints its exit code, seconds and peak RSS in KiB.
import os, resource, subprocess, sys, time
t = time.time()
p = subprocess.run(sys.argv[1:], stdout=open('out', 'w'), stderr=open('err', 'w'), stdin=subprocess.DEVNULL)
s = time.time() - t
print(p.returncode, round(s * 1000), s)
P
slowest=0
# refuse NAME TEXT [ARGUMENTS…]: spec file NAME is refused and stderr has TEXT
refuse() {
	local name=$1 text=$2 code ms
	shift 2
	read -r code ms _ < <(python3 peak.py "$BUILD/tidemark" run "$name" --progress none "$@")
	[ "$code" = 20 ] || { fail "$name: exit $code, expected 20"; head -3 err >&2; }
	grep -qF -- "$text" err || { fail "$name: stderr lacks '$text'"; head -3 err >&2; }
	[ "$ms" -gt "$slowest" ] && slowest=$ms
	[ "$ms" -lt 2000 ] || fail "$name took $ms ms"
	[ -e "$TIDEMARK_DB" ] && { fail "$name: a database was made"; rm -f "$TIDEMARK_DB"; }
}
spec() { # NAME: stdin is the body behind the two lines every spec has
	{ printf 'tidemark: 1\nsuite: t\n'; cat; } >"$1"
}

# the alias bomb, the deep document, the endless one
{
	printf 'tidemark: 1\na: &a [x,x,x,x,x,x,x,x,x]\n'
	p=a
	for n in b c d e f g h i; do
		printf '%s: &%s [*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s]\n' $n $n $p $p $p $p $p $p $p $p $p
		p=$n
	done
} >bomb.yaml
refuse bomb.yaml "10,000"
head -c 200000 /dev/zero | tr '\0' '[' >deep.yaml
refuse deep.yaml "32"
truncate -s 2G big.yaml
refuse big.yaml "larger"
printf 'tidemark: 1\nsuite: &x [*x]\n' >self.yaml
refuse self.yaml "self.yaml:2"
spec dup.yaml <<<$'workload: null\nset: {batch: 1}\nset: {batch: 2}'
refuse dup.yaml "dup.yaml:5"
printf 'tidemark: 1\nsuite: "a\0b"\n' >nul.yaml
refuse nul.yaml "nul.yaml"
printf 'tidemark: 1\nsuite: "\xff\xfe"\n' >utf.yaml
refuse utf.yaml "UTF-8"
spec passwd.yaml <<<$'extends: /etc/passwd\nworkload: null'
refuse passwd.yaml "passwd.yaml:3"
spec cycle.yaml <<<$'extends: cycle.yaml\nworkload: null'
refuse cycle.yaml "extends"
for i in 1 2 3 4 5 6; do spec chain$i.yaml <<<"extends: chain$((i + 1)).yaml"; done
spec chain7.yaml <<<'workload: null'
refuse chain1.yaml "extends"
spec over.yaml <<<$'workload: null\naxes:\n  batch: {range: [1, 9000000000000000000], step: 1}\n  at: {range: [1, 9000000000000000000], step: 1}'
refuse over.yaml "over.yaml"
spec million.yaml <<<$'workload: null\naxes:\n  batch: {range: [1, 1000], step: 1}\n  at: {range: [1, 1000], step: 1}'
refuse million.yaml "10,000"
spec derive.yaml <<<$'workload: null\nderive:\n  batch: "at + 1"\n  at: "batch + 1"'
refuse derive.yaml "cycle"
spec zero.yaml <<<$'workload: null\nderive:\n  batch: "1 // 0"'
refuse zero.yaml "zero"
spec tag.yaml <<<$'workload: null\nset: !!python/object {batch: 1}'
refuse tag.yaml "tag"
spec merge.yaml <<<$'workload: null\nvars: &b {x: 1}\nset: {<<: *b}'
refuse merge.yaml "extends"

# keys, types and units: the place and the nearest word
spec key.yaml <<<$'workload: null\nset: {bacth: 1}'
refuse key.yaml "key.yaml:4:"
grep -q "batch" err || fail "the nearest key is not named"
spec unknown.yaml <<<$'workload: nul'
refuse unknown.yaml "null"
spec norway.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, precision: no}'
refuse norway.yaml "fp32"
for v in 0 -3 1.5 x 0x10 1e999; do
	spec v.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, batch: '"$v"'}'
	refuse v.yaml "batch"
done
spec unit.yaml <<<$'workload: null\nset: {bytes: 16}'
refuse unit.yaml "unit"
spec cap.yaml <<<$'workload: null\nset: {cap: 7.7}'
refuse cap.yaml "cap"
spec cap2.yaml <<<$'workload: null\nset: {cap: "770%"}'
refuse cap2.yaml "cap"
spec limit.yaml <<<$'workload: null\nlimits: {wall: 30}'
refuse limit.yaml "limit.yaml:4"

# what only the workload knows
spec heads.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, width: 130}'
refuse heads.yaml "heads.yaml:4:"
spec seq.yaml <<<$'workload: gpt\nset:\n  model: gpt-tiny\n  seq: 9999'
refuse seq.yaml "seq.yaml:6:"
spec data.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, data: "text:/nonexistent/file"}'
refuse data.yaml "/nonexistent/file"
: >empty.txt
spec data2.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, data: "text:'"$TMP"'/empty.txt"}'
refuse data2.yaml "empty.txt"
echo short >short.txt
spec data3.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, data: "text:'"$TMP"'/short.txt"}'
refuse data3.yaml "short.txt"

# token files: a wrong magic, a version, a cut file, a token too large, too short, a pointer of Git LFS
tokens() { # NAME MAGIC VERSION SAID TOKEN…
	python3 - "$@" <<'P'
import struct, sys
name, head, tokens = sys.argv[1], [int(v) for v in sys.argv[2:5]], [int(v) for v in sys.argv[5:]]
open(name, 'wb').write(struct.pack('<3i', *head) + bytes(1012) + struct.pack(f'<{len(tokens)}H', *tokens))
P
}
tokens magic.bin 20240521 1 9 1 2 3 4 5 6 7 8 9
tokens version.bin 20240520 2 9 1 2 3 4 5 6 7 8 9
tokens cut.bin 20240520 1 10 1 2 3 4 5 6 7 8 9
tokens large.bin 20240520 1 9 1 2 3 400 5 6 7 8 9
tokens brief.bin 20240520 1 8 1 2 3 4 5 6 7 8
tokens fine.bin 20240520 1 9 1 2 3 4 5 6 7 8 383
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 211224\n' 7 >lfs.bin
for f in magic:magic version:version cut:truncated "large:token 400 at position 3" brief:short lfs:"git lfs pull" none:"No such file"; do
	spec llmc.yaml <<<$'workload: gpt\nset:\n  model: gpt-tiny\n  seq: 8\n  data: "llmc:'"$TMP/${f%%:*}"$'.bin"'
	refuse llmc.yaml "${f#*:}"
	refuse llmc.yaml "llmc.yaml:7:"
done
spec llmc.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: 8, data: "llmc:'"$TMP"$'/fine.bin"}'
expect 0 tm plan llmc.yaml
spec llmc.yaml <<<$'workload: bert\nset: {model: bert-tiny, seq: 9, data: "llmc:'"$TMP"$'/large.bin"}'
refuse llmc.yaml "vocabulary"

# what is drawn in each step: its forms, its range, and no expression about it
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: {choices: []}}'
refuse drawn.yaml "1 to 64"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: {choises: [64]}}'
refuse drawn.yaml "did you mean 'choices'"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: {choices: [64, 0]}}'
refuse drawn.yaml "drawn.yaml:4:44"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: [64, 128]}'
refuse drawn.yaml "under axes"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: {choices: [64, 9999]}}'
refuse drawn.yaml "9999"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, batch: {choices: [1, 2]}}'
refuse drawn.yaml "batch"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny, seq: {choices: [64, 128]}}\nderive: {accum: "256 // seq"}'
refuse drawn.yaml "drawn per step here"
spec drawn.yaml <<<$'workload: gpt\nset: {model: gpt-tiny}\naxes: {seq: [64, {choices: [64, 128]}]}'
refuse drawn.yaml "drawn per step here" --only "seq == 64"
expect 0 tm plan drawn.yaml
answers "choices:64,128"
expect 20 tm plan drawn.yaml -s seq=choices:64,x
says "'x'"
refuse /nonexistent.yaml "/nonexistent.yaml"

# several at once
spec many.yaml <<<$'workload: null\nset: {bacth: 1, stpe_time: 3ms, bytes: 16}'
refuse many.yaml "bacth"
grep -q "stpe_time" err || fail "only the first error is told"

# memory: the largest of the hostile ones
for f in bomb deep big million; do
	rss=$(python3 - "$BUILD/tidemark" "$f.yaml" <<'P'
import resource, subprocess, sys
subprocess.run([sys.argv[1], 'plan', sys.argv[2]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
P
)
	echo "$f.yaml: peak $rss KiB"
	if [ "$rss" -gt 16384 ] && ! nm -C "$BUILD/tidemark" 2>/dev/null | grep -q __asan_init; then
		fail "$f.yaml took $rss KiB"
	fi
done
echo "slowest refusal: $slowest ms"

# keys that some YAML readers take for booleans: texts stay texts, a flag replaces its axis
spec norway.yaml <<<$'workload: null\nvars: {n: 1, y: 2, on: 3, off: 4, yes: 5, no: 6}\naxes: {batch: [1, 2]}'
expect 0 tm plan norway.yaml -s 'axes.batch=[4]' --format jsonl
equal "$(wc -l <out)" 1 "points after a flag replaced the axis"

# editors put a mark before UTF-8 and end lines with CR LF
printf '\357\273\277tidemark: 1\r\nworkload: null\r\n' >mark.yaml
expect 0 tm plan mark.yaml
printf '\357\273\277tidemark: 1\r\nworkload: nul\r\n' >mark.yaml
expect 20 tm plan mark.yaml
says "mark.yaml:2:11"
finish
