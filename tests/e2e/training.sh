# Training runs that did not do their work are invalid by name; wrong options are refused with what could stand there.
. "$(dirname "$0")/_lib.sh"

gpt="-s model=gpt-tiny -s layers=2 -s width=32 -s seq=16 -s batch=2 -s threads=1 -s measure.steps=4 -s measure.warmup=1"
last() { sql "SELECT status || ':' || coalesce(cause, '') || ':' || coalesce(reason, '') FROM run ORDER BY run_id DESC LIMIT 1"; }

# ---- work not done
expect 0 tm run gpt --progress none $gpt
if [ "$(TIDEMARK_FAULT=gradient:1 "$BUILD/tidemark" run gpt --progress none $gpt >/dev/null 2>&1; echo $?)" = 0 ]; then
	echo "without fault points: what they show is left out"
else
	broken() { # FAULT CAUSE TEXT ARGUMENTS…
		local fault=$1 cause=$2 text=$3
		shift 3
		TIDEMARK_FAULT=$fault expect 12 tm run gpt --progress none $gpt "$@"
		case "$(last)" in "invalid:$cause:"*"$text"*) ;; *) fail "$(last), expected invalid:$cause with '$text'" ;; esac
		equal "$(sql "SELECT count(*) FROM value WHERE run_id = (SELECT max(run_id) FROM run)")" 0 "values of an invalid run"
	}
	broken gradient:3 gradient "the gradient of h.0.ln_1.weight is all zero in step 0"
	broken update:5 update "the update of step 0 did not change h.0.attn.c_attn.weight"
	broken gradient:3 gradient "h.0.ln_1.weight" -s precision=bf16 -s attention=flash -s checkpoint=block
	broken overflow:1 gradient "the gradient of wte.weight is not finite in step 0" -s precision=bf16
	# fp16 takes one overflow and goes on, but not at the floor
	TIDEMARK_FAULT=overflow:2 expect 0 tm run gpt --progress none $gpt -s precision=fp16 -s loss_scale=1024
	equal "$(sql "SELECT v FROM value JOIN metric USING(metric_id) WHERE name = 'scale.final' ORDER BY run_id DESC LIMIT 1")" \
		512.0 "scale.final"
	broken overflow:1 scale "the loss scale met its floor of 1 at step 0 and gradients still overflow" -s precision=fp16 -s loss_scale=1
fi

# ---- options
refuses() { # TEXT ARGUMENTS…
	local text=$1
	shift
	expect 20 tm run gpt --progress none $gpt "$@"
	says "$text"
}
refuses "attention materialised" -s checkpoint=selective -s attention=flash
refuses "the model has 2 layers; expected every:1 to every:2" -s checkpoint=every:3
refuses "32 rows go through the head" -s loss=chunked:33
refuses "a power of two" -s precision=fp16 -s loss_scale=1000
refuses "only precision fp16" -s loss_scale=1024
refuses "expected precision bf16" -s master=split -s precision=fp16
refuses "optimizer sgd" -s momentum=0.9
refuses "not built yet" -s checkpoint=budget:2GiB
refuses "fp32, tf32, bf16, fp16 or bf16-pure" -s precision=fp8
expect 0 tm run gpt --progress none $gpt -s attention=sdpa -s checkpoint=every:2 -s loss=chunked:4 -s precision=bf16 -s master=split \
	-s optimizer=sgd -s momentum=0.9 -s optimizer_state=bf16
finish
