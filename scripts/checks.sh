# Shared by scripts that run checks: runs steps, counts what passed, and says at the end what failed or was skipped.
# MEMTUNE_RESULT names a file for the counts, for a script that adds up several.
# shellcheck shell=bash disable=SC2154

passed=0
failed_tests=0
skipped=()
failed=()
failures=()  # output of each failed test

# Counts the results that ctest printed to FILE. Skipped cases of a passing program are only in ctest's log.
count_tests() {  # PRESET FILE
  local name case total=0 lost=0 log
  log=$(build_folder "$1")/Testing/Temporary/LastTest.log
  local -A whole=()
  read -r lost total < <(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$2" | tail -n 1) || :
  while IFS= read -r name; do
    whole[$name]=1
    skipped+=("$1: $name")
  done < <(sed -n 's/^\t *[0-9]* - \(.*\) (Skipped)$/\1/p' "$2")
  passed=$((passed + total - lost - ${#whole[@]}))
  failed_tests=$((failed_tests + lost))
  [[ -e $log ]] || return 0
  while IFS=$'\t' read -r name case; do
    [[ ${whole[$name]:-} ]] || skipped+=("$1: $name: $case")
  done < <(awk '/^[0-9]+\/[0-9]+ Test: / { sub(/^[^:]*: /, ""); test = $0 }
    sub(/^case skipped: /, "") { print test "\t" $0 }' "$log")
}

run_tests() {  # PRESET [CTEST ARGUMENTS...]
  local folder logs code=0
  folder=$(build_folder "$1") logs=$folder/Testing/Temporary
  mkdir -p "$logs"
  rm -f "$logs"/Last*.log
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$(nproc)" "${@:2}" | tee "$logs/output" ||
    code=$?
  counted=1
  count_tests "$1" "$logs/output"
  ((code != 0)) || return 0
  # Printed again at the end, because thousands of lines of other checks come after the first time. ctest's own output
  # is read: a test that calls ctest in the same folder replaces its log.
  while IFS=: read -r _ name; do
    failures+=("$1: $name" "$(awk -v "name=: $name " '/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / { on = index($0, name) }
      /^ *Start +[0-9]+: / { on = 0 } on' "$logs/output" | tail -n 60)")
  done < <(cat "$logs/LastTestsFailed.log" 2>/dev/null)
  return 1
}

# A command that exits with 77 was skipped; `why` says why.
step() {  # NAME COMMAND...
  local code=0 counted='' why=''
  say "$1"
  "${@:2}" || code=$?
  if ((code == 77)); then
    skipped+=("$1 ($why)")
  elif ((code != 0)); then
    say "$1: FAILED"
    failed+=("$1")
    [[ $counted ]] || failed_tests=$((failed_tests + 1))
    return 1
  elif [[ ! $counted ]]; then
    passed=$((passed + 1))
  fi
}

format() {  # all sources
  # shellcheck disable=SC2016
  find core cli gui tests bench \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z |
    xargs -0 -r -n 32 -P "$(nproc)" bash -c '
    wrong=$(clang-format --dry-run -Werror "$@" 2>&1) ||
      { sed -n "s/^\([^ :]*\):.*: error: .*/not formatted: clang-format -i \1/p" <<<"$wrong" | uniq; exit 1; }' _
}

summarize() {
  ((${#failures[@]} == 0)) || printf '%s\n' "${failures[@]}" >&2
  ((${#skipped[@]} == 0)) || say "skipped ${#skipped[@]}: $(printf '%s, ' "${skipped[@]}" | sed 's/, $//')"
  if ((${#failed[@]} > 0)); then
    say "failed: $(IFS=, && echo "${failed[*]}")"
  elif ((${#skipped[@]} > 0)); then
    say "all passed that was not skipped"
  else
    say "all passed"
  fi
  [[ ! ${MEMTUNE_RESULT:-} ]] || echo "$passed $failed_tests ${#skipped[@]}" >"$MEMTUNE_RESULT"
  echo "$passed passed, $failed_tests failed, ${#skipped[@]} skipped"
  ((${#failed[@]} == 0))
}
