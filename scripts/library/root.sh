# root.sh: functions that make minimal roots of Debian and run commands in copies of them. A script sources it after help.sh.
#   need_roots CHECKOUT COMMIT|FILE checks once that this machine can make roots; otherwise the script exits with 77 and a reason
#   choose_release 12|13|testing    selects this release and makes its minimal root (debootstrap, variant minbase) unless it exists
#   fresh_copy                      makes $work/root, a copy of that root, with a user and the sources: COMMIT, or the archive FILE
#   give_sudo                       installs sudo in the copy, for the user
#   inside USER COMMAND...          runs a command in the copy
# The roots and the downloaded packages stay in $XDG_CACHE_HOME/tapehead. `work` is a temporary directory, which the end of the script
# removes. The mirror and the proxy are those of this machine's apt; DEBIAN_MIRROR in the environment can name another mirror.
# shellcheck shell=sh

longest=3600 # seconds for a step: only a guard against hangs

say() {
    printf '== bare Debian %s: %s\n' "$release" "$*"
}

need_roots() {
    checkout=$1 commit=$2
    [ "$(id -u)" -eq 0 ] || skip "only root can make a bare root of Debian"
    unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no mounts in a new namespace"
    if [ -f "$commit" ]; then
        tar -tf "$commit" >/dev/null || refuse "$commit is not an archive"
        tried="archive $commit"
    else
        commit=$(git -C "$checkout" rev-parse --verify --short "$2^{commit}" 2>/dev/null) ||
            skip "$checkout is not a git checkout with a commit $2"
        tried="commit $commit"
    fi
    "$checkout/scripts/setup.sh" root || skip "debootstrap is missing, and apt-get could not install it (its message is above)"
    find_mirror
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead
    mkdir -p "$cache"
    find "$cache" -maxdepth 1 -name 'work.*' -mtime +1 -exec rm -rf --one-file-system {} + # left by killed runs
    work=$(mktemp -d "$cache/work.XXXXXX")
    child=
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

clean_up() {
    # The child's namespace owns the mounts: they end with its last process.
    [ -z "$child" ] || { kill -KILL "-$child" && wait "$child"; } 2>/dev/null || true
    rm -rf --one-file-system "$work"
}

# bounded COMMAND...: runs it; it ends with this script, or after the longest time for a step.
bounded() {
    timeout --signal=KILL "$longest" "$@" </dev/null &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    return $status
}

# -- the root --

# Prints this machine's settings of apt for its mirrors (proxies, certificates). The apt inside needs them too.
apt_settings() {
    apt-config dump | grep -E '^Acquire::(http|https|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])[:" ]' | grep -v ' "";$' ||
        true
    for scheme in http https; do
        proxy=$(printenv "${scheme}_proxy" || true)
        [ -z "$proxy" ] || printf 'Acquire::%s::Proxy "%s";\n' "$scheme" "$proxy"
    done
}

choose_release() {
    release=$1
    case $release in
    12) name=bookworm ;;
    13) name=trixie ;;
    *) name=$release ;;
    esac
    base=$cache/bare-debian-$release/base.tar
    packages=$cache/bare-debian-$release/packages # downloaded by earlier runs
    mkdir -p "$packages"
    [ -e "$base" ] || make_base
}

make_base() {
    say "making the root"
    rm -f "$packages"/*.deb
    bounded debootstrap --variant=minbase "$name" "$work/base" "$mirror" >"$work/log" 2>&1 || {
        tail -n 5 "$work/log"
        skip "debootstrap could not make a root of $name from this machine's mirror"
    }
    rm -rf "$work/base/var/cache/apt/archives"/*.deb
    apt_settings >"$work/base/etc/apt/apt.conf.d/90host"
    # Copies the certificates that this machine's apt trusts, because minbase contains no certificates.
    { sed -n 's/.*CaInfo "\(.*\)";/\1/p' "$work/base/etc/apt/apt.conf.d/90host"; echo /etc/ssl/certs/ca-certificates.crt; } |
        while read -r file; do
            [ ! -e "$file" ] || install -D -m 644 "$file" "$work/base$file"
        done
    tar -C "$work/base" --one-file-system -cf "$work/base.tar" .
    mv "$work/base.tar" "$base"
    rm -rf --one-file-system "$work/base"
}

# Writes the sources as a tar archive with one folder.
sources() {
    if [ -f "$commit" ]; then
        gzip -dc "$commit"
    else
        git -C "$checkout" archive --prefix=tapehead/ "$commit"
    fi
}

# Makes a fresh copy in $work/root, with a user and the sources in the home directories.
fresh_copy() {
    rm -rf --one-file-system "$work/root"
    mkdir "$work/root"
    tar -C "$work/root" -xf "$base"
    cp /etc/resolv.conf /etc/hosts "$work/root/etc/"
    cp -l "$packages"/*.deb "$work/root/var/cache/apt/archives/" 2>/dev/null || true
    chroot "$work/root" useradd --create-home --shell /bin/sh user
    mkdir "$work/root/home/user/tapehead" "$work/root/root/tapehead"
    for home in home/user root; do
        sources | tar -x -C "$work/root/$home/tapehead" --strip-components=1
    done
    chroot "$work/root" chown -R user:user /home/user/tapehead
}

# inside USER COMMAND...: runs it in the copy, in the user's checkout, without this machine's terminal, locale and environment.
inside() {
    user=$1
    shift
    case $user in
    root) home=/root ;;
    *) home=/home/$user ;;
    esac
    # shellcheck disable=SC2016 # variables of the inner shell
    bounded unshare --mount --pid --fork --kill-child --propagation private sh -c '
        root=$1 user=$2 home=$3
        shift 3
        mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" &&
            exec chroot --userspec="$user" "$root" env -i HOME="$home" USER="$user" LOGNAME="$user" \
                PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                sh -c "cd ~/tapehead && \"\$@\"" sh "$@"
    ' sh "$work/root" "$user" "$home" "$@"
}

# Keeps the downloaded packages.
keep_packages() {
    cp -ln "$work/root/var/cache/apt/archives"/*.deb "$packages/" 2>/dev/null || true
}

give_sudo() {
    inside root sh -c 'apt-get -q update && apt-get -q install -y --no-install-recommends sudo &&
        echo "user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/user' >"$work/log" 2>&1 || {
        tail -n 20 "$work/log"
        skip "sudo could not be installed from this machine's mirror"
    }
}
