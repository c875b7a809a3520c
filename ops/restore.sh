#!/bin/sh
# Makes the data folder of a store from a backup:  restore.sh [--replace] BACKUP FOLDER
#
#   BACKUP  a file that backup.sh made, or - for standard input
#   FOLDER  the data folder of a stopped store: a private one's (zooming-data), or that of a Redis
#           or Valkey with `appendonly yes` and the usual file names
#
# A store that keeps an append-only file loads nothing else, so the backup becomes the base of one.
# A folder that holds data is refused; with --replace the old data is moved aside, never deleted.
# So is one that is locked: by a service, by Compose's Valkey, or by another restore.
set -eu

die() {
  printf 'restore: %s\n' "$*" >&2
  exit 1
}

replace=no
if [ "${1-}" = --replace ]; then
  replace=yes
  shift
fi
[ $# -eq 2 ] || die "usage: restore.sh [--replace] BACKUP FOLDER"
backup=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
command -v flock >/dev/null || die "flock is missing; it is in the package util-linux"

umask 077
mkdir -p "$folder"
exec 9>>"$folder/lock"
flock -n 9 || die "$folder is in use. Stop the service or the server on it first."

aof=$folder/appendonlydir
if [ -e "$aof" ] && [ "$replace" = no ]; then
  die "$folder holds a store. Give another folder, or --replace to move its data aside."
fi

staged=$folder/appendonlydir.restored
rm -rf "$staged"
mkdir "$staged"
trap 'rm -rf "$staged"' EXIT
trap 'exit 130' INT TERM
base=$staged/appendonly.aof.1.base.rdb
cat -- "$backup" >"$base" || die "cannot read $backup"
"$here/check-rdb.sh" "$base" >"$staged/said" || die "$backup was not restored; see above. $folder \
is as it was."
keys=$(sed 's/.* is whole: //' "$staged/said")
rm "$staged/said"
echo "file ${base##*/} seq 1 type b" >"$staged/appendonly.aof.manifest"
sync "$base" "$staged/appendonly.aof.manifest" "$staged"

if [ -e "$aof" ]; then
  aside=$aof.before-$(date -u +%Y%m%dT%H%M%SZ)
  [ ! -e "$aside" ] || die "$aside exists already; try again in a second."
  mv "$aof" "$aside"
  echo "restore: the data that was there is in $aside"
fi
mv "$staged" "$aof"
sync "$folder"
echo "restore: $folder holds $keys; start the store on it"
