#!/bin/bash
@DIRECTIVES@

# Written by: @PROGRAM@ @WORDS@
# The first node holds Ray's head and the driver; the others join it through a file in the run's folder.
# Queued again, the run goes on from its journal.

cd @DIRECTORY@ || exit
@SETUP@run=@RUN@
# On a node Slurm's programs ask the node's own cluster.
[ -z "$SLURMD_NODENAME" ] || unset SLURM_CLUSTERS
# Options of an allocation (salloc --gpus=8 --ntasks=4) which its steps would take.
unset ${!SLURM_GPUS_PER_@} ${!SLURM_NTASKS@} ${!SLURM_CPUS_PER_@} ${!SLURM_MEM_PER_@} ${!SRUN_@} \
  SLURM_GPUS SLURM_GPU_BIND SLURM_NPROCS SLURM_DISTRIBUTION SLURM_TRES_PER_TASK SLURM_THREADS_PER_CORE SLURM_HINT
# The last task of an array has the array's id as SLURM_JOB_ID.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}

first=$(LC_ALL=C scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
[ -n "$first" ] || { echo "aiperf: job $SLURM_JOB_ID has no nodes; outside of Slurm unset SLURM_JOB_ID" >&2; exit 2; }
export first job
others=$((SLURM_JOB_NUM_NODES - 1))

# Each step names the job's GPUs on a node, since a step of whole nodes would get none.
# In a job that requested GPUs without their model (TresPerNode=gpu:4, gres:gpu:4 or gres/gpu:4, by release), Slurm refuses a
# step with it.
details=$(LC_ALL=C scontrol --oneliner --details show job "$job") || exit
gres=$(tr ' ' '\n' <<< "$details" | awk '
  /^TresPer.*gpu([:=][0-9]+)?(,|$)/ { is_plain = 1 }
  sub(/^GRES=/, "") { gsub(/\([^)]*\)/, ""); nodes[++count] = $0 }
  END { for (node = 1; node <= count; node++) {
    kinds = split(nodes[node], kind, ","); gpus = ""; total = 0
    for (at = 1; at <= kinds; at++) if (sub(/^(gres[:\/])?gpu/, "gpu", kind[at])) {
      gpus = gpus (gpus == "" ? "" : ",") kind[at]; total += substr(kind[at], match(kind[at], /[0-9]*$/))
    }
    print is_plain && total ? "gpu:" total : gpus
  } }' | sort -u)
if [ "$(wc -l <<< "$gres")" -gt 1 ]; then
  echo "aiperf: all nodes of a run need the same GPUs, but found:" ${gres//$'\n'/ and }". Set cluster.gpus_per_node" >&2
  exit 2
fi
hide=  # CUDA_VISIBLE_DEVICES= runs on processors
[ -n "${CUDA_VISIBLE_DEVICES-all}" ] || { gres=${gres:+none}; hide="env CUDA_VISIBLE_DEVICES="; }
# The words below have the options of the site's file of the login node.
export AIPERF_GPUS=${gres%none} AIPERF_SITE=

# Before the time limit Slurm sends USR1: the driver is asked to close the journal and to write the report.
# A script that lost its job while its node was cut off must not end the run of the next one, whose steps have the same ids.
limit= asked= driver=
own="$job.${SLURM_RESTART_COUNT:-0}"
echo "$own" > "$run/slurm.own"
owns() { [ "$(cat "$run/slurm.own")" = "$own" ]; }
end() { ! owns || touch "$run/end-requested"; }
stop() {  # the second time at once
  [ -z "$asked" ] || ! owns || { kill "$driver"; sleep 1; kill "$driver"; }
  asked=yes; end
}
trap 'limit=reached; end' USR1
trap stop TERM INT

# A step on some of the nodes: one process on each, with this script's environment and all that the job was granted there.
# It replaces its shell, so that signals reach srun, which forwards them.
step() { exec @SRUN@ ${gres:+--gres="$gres"} "$@"; }

# A job that may lose nodes continues without its first node and without this script (Slurm 22.05). The other nodes end it if
# the run has ended there or its head does not answer, and Slurm reports that the first node is down or does not respond.
# A node that is cut off itself ends nothing. USR1 ends the wait.
joined='unset SLURM_CLUSTERS; trap "" USR1; "$@"; status=$?; trap "exit $status" USR1
case $status in 0 | @HEAD_LOST@) ;; *) exit "$status" ;; esac
while sleep 30 & wait "$!"; do
  case "$status $(LC_ALL=C sinfo --noheader --nodes="$first" --format=%t)" in
    *" down"* | "@HEAD_LOST@ "*\*) @WITHOUT_HEAD@ "$job"; exit @HEAD_LOST@ ;;
  esac
done
exit "$status"'
nodes=
if [ "$others" -gt 0 ]; then
  step --nodes="$others" --ntasks="$others" --exclude="$first" bash -c "$joined" join @INNER@@AIPERF@ join "$run" &
  nodes=$!
fi
step --nodes=1 --ntasks=1 --nodelist="$first"@CONTAINER@ @AIPERF@ @VERB@ "$run" @WORDS@ &
driver=$!
while kill -0 "$driver" 2>/dev/null; do
  wait "$driver"  # returns early for a signal
done
wait "$driver"
status=$?
[ -z "$nodes" ] || {
  for _ in {1..15}; do owns && kill -USR1 "$nodes" && sleep 1; done
  if owns; then kill "$nodes"; else kill -KILL "$nodes"; fi
  wait "$nodes"
} 2>/dev/null
@AT_LIMIT@exit "$status"
