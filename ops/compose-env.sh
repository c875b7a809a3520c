#!/bin/sh
# Makes .env, from which docker-compose.yml takes its keys, and the folder for backups.
# An existing .env stays as it is.
set -eu
cd "$(dirname "$0")/.."

random_key() {
  od -An -N 24 -t x1 /dev/urandom | tr -d ' \n'
}

umask 077
mkdir -p backups
if [ -e .env ]; then
  echo "compose-env: .env exists and was left as it is"
else
  set -C # should another one make it meanwhile, fail
  cat >.env <<ENV
# Read by docker compose. To change the admin key: edit it, then docker compose up --detach
ZOOMING_ADMIN_KEY=$(random_key)
# Counts at Grafana's first start; later it is changed in Grafana.
GRAFANA_ADMIN_PASSWORD=$(random_key)
# Whose the files in backups/ are. With rootless Docker: 0:0
BACKUP_USER=$(id -u):$(id -g)
ENV
  echo "compose-env: made .env with new keys, readable by you alone"
fi
echo "compose-env: now run: docker compose up --build --detach"
