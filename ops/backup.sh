#!/bin/sh
# Backs up a store while it serves:  backup.sh STORE FOLDER
#
#   STORE   the data folder of a private store (zooming-data), or the URL of another one
#           (redis://host:6379, rediss://…, unix:///path/of/a.sock)
#   FOLDER  where the backup goes, as zooming-DATE.rdb; an existing file is never overwritten
#
# The store sends what it would send to a new replica: its state at one moment after the call, so
# every write acknowledged before is in it. The file gets its name only after it has been checked.
# A password belongs into REDISCLI_AUTH: in the URL it would show in process lists.
set -eu

die() {
  printf 'backup: %s\n' "$*" >&2
  exit 1
}

[ $# -eq 2 ] || die "usage: backup.sh STORE FOLDER"
store=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
cli=$(command -v valkey-cli || command -v redis-cli) ||
  die "neither valkey-cli nor redis-cli is in PATH. Debian: apt-get install redis-tools"

case $store in
  unix://*) set -- -s "${store#unix://}" ;;
  *://*) set -- -u "$store" ;;
  *)
    [ -S "$store/store.sock" ] || die "there is no store.sock in $store. Is that the data folder \
of a running service? (With a very long path its socket is in a folder /tmp/zooming-…: give it as \
unix:///path.) A stopped service is backed up by copying its data folder."
    set -- -s "$store/store.sock"
    ;;
esac

umask 077
mkdir -p "$folder"
backup=$folder/zooming-$(date -u +%Y%m%dT%H%M%SZ).rdb
part=$(mktemp "$folder/.backup-XXXXXX")
trap 'rm -f "$part" "$part.log"' EXIT
trap 'exit 130' INT TERM

echo "backup: waiting for the snapshot of $store; a store begins it some 5 seconds after the call"
if ! "$cli" "$@" --rdb "$part" >"$part.log" 2>&1; then
  cat "$part.log" >&2
  die "$store sent no snapshot; see above. Nothing was kept."
fi
"$here/check-rdb.sh" "$part" >"$part.log" || die "what $store sent could not be verified; see \
above. Nothing was kept."
sync "$part"
ln "$part" "$backup" || die "$backup could not be made; it may exist already. Nothing was kept."
sync "$folder"
echo "backup: $backup,$(sed 's/.* is whole://' "$part.log"), $(wc -c <"$backup" | tr -d ' ') bytes"
