#!/bin/bash
# Stands in for cf, as far as the smoke test uses it: takes its words, writes each call to $CALLS, and has the broker's own
# client do what they ask for.
set -euo pipefail
command=$1
shift
echo "$command $*" >>"$CALLS"
names=()
for word in "$@"; do
  case $word in
    -f | --wait | --skip-remote-execution) ;;
    -L) break ;;
    -*) echo "Incorrect Usage: unknown flag $word" >&2; exit 1 ;;
    *) names+=("$word") ;;
  esac
done
case $command in
  create-service) exec "$BROKER" client create-service "${names[@]:1}" ;; # there is one offering
  create-service-key | delete-service-key | delete-service) exec "$BROKER" client "$command" "${names[@]}" ;;
  service-key)
    printf 'Getting key %s for service instance %s as developer...\n\n' "${names[1]}" "${names[0]}"
    "$BROKER" client service-key "${names[@]}" --json | jq '{credentials: (.credentials // .)}'
    ;;
  *) echo "'$command' is not a registered command." >&2; exit 1 ;;
esac
