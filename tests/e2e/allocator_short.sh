# allocator: expandable is caching with growing segments: run, stored and looked up as that.
. "$(dirname "$0")/_lib.sh"

expect 0 tm allocators
answers "short for caching with alloc_conf expandable_segments:True"

small="-s buffers=3 -s bytes=11MiB -s mode=alloc -s measure.steps=2 -s measure.warmup=1"
expect 0 tm run null $small --progress none -a allocator=caching,expandable
equal "$(sql "SELECT count(*) FROM config WHERE allocator = 'caching'")" 2 "configurations, all of them of caching"
equal "$(sql "SELECT count(*) FROM config WHERE json_extract(params, '\$.alloc_conf') = 'expandable_segments:True'")" 1 "with growing segments"
# three fixed segments of 12 MiB; two pages of 20 MiB
equal "$(sql "SELECT group_concat(v, ' ') FROM (SELECT DISTINCT v.v / 1048576 AS v FROM value v JOIN metric m USING(metric_id)
	WHERE m.name = 'mem.reserved.peak' ORDER BY 1)")" "36.0 40.0" "MiB reserved at the peak"

# the other spelling is no new configuration
expect 0 tm run null $small --progress none -s alloc_conf=expandable_segments:True
equal "$(sql "SELECT count(*) FROM config")" 2 "configurations after the long spelling"

expect 20 tm run null $small --progress none -s allocator=expandable -s alloc_conf=expandable_segments:False
says "alloc_conf says expandable_segments:False, but allocator expandable is short for caching"
PYTORCH_ALLOC_CONF=max_split_size_mb:64 expect 0 tm plan null $small -s allocator=expandable --format json
answers '"alloc_conf":"max_split_size_mb:64,expandable_segments:True"'

finish
