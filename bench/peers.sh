# peers.sh: functions for scripts of this folder, which source it: they install the peers in a separate Python
# environment, $peers. A peer that cannot be installed is left out.
# shellcheck shell=sh

# Creates the environment. Fails if this machine cannot.
make_environment() {
    [ -x "$peers/bin/pip" ] || python3 -m venv "$peers"
}

# install_peer PEER REQUIREMENT OTHER...: REQUIREMENT is PEER with a version; the newest if pip does not have that version.
install_peer() {
    [ ! -e "$peers/$1.complete" ] || return 0
    echo "Installing $1 into $peers" >&2
    name=$1 required=$2
    shift 2
    "$peers/bin/pip" install --quiet "$required" "$@" || "$peers/bin/pip" install --quiet "${required%==*}" "$@" || return 0
    touch "$peers/$name.complete"
}
install_torch() {
    install_peer torch torch==2.13.0 numpy
}
