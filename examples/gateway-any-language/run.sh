#!/usr/bin/env bash
# Starts the Python API and the gateway in front of it. Ctrl-C ends both.
#
#   ./run.sh                            API on port 3000, gateway on 127.0.0.1:8080
#   API_PORT=3001 ./run.sh --listen 127.0.0.1:9090     other ports; flags go to the gateway
#   SEMEL=/path/to/semel ./run.sh       a gateway that was built before
set -euo pipefail
cd "$(dirname "$0")"
port=${API_PORT:-3000}

command -v python3 >/dev/null || { echo "python3 is needed: apt-get install python3" >&2; exit 1; }

# Each in a process group of its own, so that Ctrl-C comes to this script only.
set -m
python3 server.py "$port" &
api=$!
gateway=
stop() {
  # The gateway first: it still needs the API for what it has begun.
  if [ -n "$gateway" ]; then
    kill -- "-$gateway" 2>/dev/null && wait "$gateway" || true
  fi
  kill -- "-$api" 2>/dev/null || true
}
trap stop EXIT
trap exit INT TERM

if [ -n "${SEMEL:-}" ]; then
  "$SEMEL" gateway --config semel.toml --upstream "http://127.0.0.1:$port" "$@" &
else
  cargo run --release --quiet -p semel-cli -- \
    gateway --config semel.toml --upstream "http://127.0.0.1:$port" "$@" &
fi
gateway=$!
# Whichever ends first ends the other.
wait -n
