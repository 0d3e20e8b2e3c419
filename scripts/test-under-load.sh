#!/usr/bin/env bash
# Runs `npm test` several times in random order beside a load that leaves it a quarter of the machine: three busy processes for
# each core, one in two of which also writes and syncs files. No test may depend on how busy the machine is.
#
#   scripts/test-under-load.sh [TIMES] [ARGUMENTS OF VITEST…]
set -euo pipefail
cd "$(dirname "$0")/.."

times=${1:-5}
shift || true
folder=$(mktemp -d)
busy=()
finish() {
  kill "${busy[@]}" 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

for core in $(seq "$(nproc)"); do
  for each in 1 2 3; do
    node -e '
      const [folder, name] = process.argv.slice(1)
      const writes = name.endsWith("2")
      const until = Date.now() + 3_600_000
      while (Date.now() < until) {
        for (let i = 0; i < 5e6; i++) Math.sqrt(i)
        if (writes) fs.writeFileSync(path.join(folder, name), Buffer.alloc(1 << 20), { flush: true })
      }' "$folder" "$core-$each" &
    busy+=($!)
  done
done

for run in $(seq "$times"); do
  started=$(date +%s)
  if npx vitest run --sequence.shuffle "$@" > "$folder/log" 2>&1; then result=passed; else result=FAILED; fi
  echo "run $run of $times: $result in $(($(date +%s) - started)) s; load $(cut -d' ' -f1 /proc/loadavg)"
  grep -aE 'Tests |seed|Running tests' "$folder/log" || true
  if [ "$result" = FAILED ]; then
    grep -aE -A12 'FAIL' "$folder/log"
    exit 1
  fi
done
