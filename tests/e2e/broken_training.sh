#!/bin/bash
# Training that goes wrong without an error: a loss scale that collapses, a
# gradient that is zero, an update that was left out, a loss that is no number. Fast runs, all of
# them, so none of their figures may be stored; and healthy loss scaling is left alone.
. "$(dirname "$0")/_lib.sh"

newest() { sql "SELECT $1 FROM run ORDER BY run_id DESC LIMIT 1"; }
value() { sql "SELECT v FROM value JOIN metric USING(metric_id) WHERE name = '$1' AND run_id = (SELECT max(run_id) FROM run)"; }
no_values() { equal "$(sql "SELECT count(*) FROM value WHERE run_id = (SELECT max(run_id) FROM run)")" 0 "values of $1"; }

# A program with a loss scale: overflows `always`, `once` in 2,000 steps, in the first `six`.
cat >stream.sh <<'END'
awk -v how="$1" -v n="$2" -v least="${3:-1}" 'BEGIN {
	scale = 65536
	print "{\"e\":\"phase\",\"name\":\"measure\",\"at\":\"begin\"}"
	for (i = 0; i < n; i++) {
		over = how == "always" || (how == "once" && i % 2000 == 1999) || (how == "six" && i < 6)
		printf "{\"e\":\"steps\",\"i0\":%d,\"us\":[1],\"tokens\":[64],\"loss\":[%.9f],\"scale\":[%.17g]%s}\n",
			i, 1 + 1 / (i + 1), scale, over ? ",\"skipped\":[" i "]" : ""
		if (over) { good = 0; if (scale > least) scale /= 2 }
		else if (++good == 2000) { good = 0; scale *= 2 }
	}
	print "{\"e\":\"phase\",\"name\":\"measure\",\"at\":\"end\"}"
}' >&3
sleep 0.05
END
stream() { # HOW AND HOW MANY STEPS, as list items; FLAGS…
	local items=$1
	shift
	tm run exec --progress none -s "command=[sh, $TMP/stream.sh, $items]" "$@"
}

expect 12 stream "always, '3000'"
equal "$(newest "status || ' ' || cause")" "invalid scale" "overflow in every step"
case "$(newest reason)" in *"step 16 overflows at the floor of the loss scale (1, from 65536; 17 steps skipped)"*) ;; *) fail "$(newest reason)" ;; esac
no_values "a collapsed scale"
# nor is one without a floor left to go on into denormals
expect 12 stream "always, '3000', '1e-300'"
equal "$(newest "cause || ' ' || (reason LIKE 'step 16 %')")" "scale 1" "a scale without a floor"

expect 0 stream "once, '4001'" -s measure.steps=4001
equal "$(newest "status || ' ' || reason")" "ok 2 of 4001 steps skipped after overflows; loss scale 65536 at first, 16384 at the end" "one overflow in 2,000"
equal "$(value scale.final)" 16384.0 "the exported scale"
expect 0 tm show "$(newest run_id)"
answers "2 of 4001 steps skipped"
expect 0 stream "six, '106'"
equal "$(newest status)" ok "six overflows at the start"
equal "$(sql "SELECT n FROM series JOIN metric USING(metric_id) WHERE name = 'skipped' AND run_id = (SELECT max(run_id) FROM run)")" 106 "steps with a mark"

# causes that a worker names
for cause in gradient update scale nan; do
	printf 'printf "{\\"e\\":\\"fail\\",\\"cause\\":\\"%s\\",\\"text\\":\\"%s of h.0.attn.c_attn.bias\\",\\"step\\":3}\\n" >&3; exit 4\n' $cause $cause >fail.sh
	expect 12 tm run exec --progress none -s "command=[sh, $TMP/fail.sh]"
	case "$(newest "status || ' ' || cause || ' ' || reason")" in
	"invalid $cause $cause of h.0.attn.c_attn.bias (step 3)") ;;
	*) fail "cause $cause: $(newest "status || ' ' || cause || ' ' || reason")" ;;
	esac
	no_values "cause $cause"
done

grep -q '^TIDEMARK_FAULTS:BOOL=ON' "$BUILD/CMakeCache.txt" || {
	echo "no fault points in this build: the worker's own checks were not made to speak" >&2
	finish
	exit
}
small="-s model=gpt-tiny -s layers=1 -s batch=2 -s seq=16 -s device=cpu \
	-s measure.warmup.min=1 -s measure.warmup.max=1 -s measure.steps=4 --progress none"
TIDEMARK_FAULT=gradient:3 expect 12 tm run gpt $small
equal "$(newest "status || ' ' || cause")" "invalid gradient" "a gradient of zeros"
case "$(newest reason)" in *"step 0"*) ;; *) fail "no step: $(newest reason)" ;; esac
no_values "a gradient of zeros"
TIDEMARK_FAULT=update:3 expect 12 tm run gpt $small
equal "$(newest "status || ' ' || cause")" "invalid update" "an update that was left out"
no_values "an update that was left out"
TIDEMARK_FAULT=overflow:3 expect 0 tm run gpt $small -s precision=fp16
equal "$(newest "status || ' ' || reason")" "ok 1 of 5 steps skipped after overflows; loss scale 65536 at first, 32768 at the end" "one overflow of fp16"
equal "$(value scale.final)" 32768.0 "its scale"
equal "$(sql "SELECT count(*) FROM history JOIN run USING(config_id) WHERE status = 'invalid'
	AND NOT EXISTS(SELECT 1 FROM run o WHERE o.config_id = run.config_id AND o.sweep_id = history.sweep_id AND o.status = 'ok')")" 0 "invalid runs in the history"
finish
