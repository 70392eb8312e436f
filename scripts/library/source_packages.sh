# source_packages.sh: functions that build libraries from this Debian's source packages, for another compiler. A script sources it after
# help.sh and sets
#   work       a temporary directory; source_packages.sh downloads and builds there
#   libraries  the directory for which the libraries are built
#   target     what they are built for, in messages: "musl"
# shellcheck shell=sh

# apt OPTION...: runs apt-get with its own lists and caches, so that this machine's apt does not change.
apt() {
    apt-get -q -o APT::Sandbox::User= -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$work" -o Dir::State::status="$work/status" -o Dir::Cache="$work" "$@" >"$work/log" 2>&1
}

# download_sources PACKAGE...: downloads source packages to $work/sources.
download_sources() {
    debian=$(. /etc/os-release && [ "${ID:-}" = debian ] && printf %s "${VERSION_CODENAME:-}") ||
        skip "the libraries ($*) are source packages of Debian, and this system is not Debian"
    find_mirror
    mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/sources"
    : >"$work/status"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $debian main" >"$work/sources.list"
    { apt -o APT::Update::Error-Mode=any update && (cd "$work/sources" && apt source --download-only "$@"); } || {
        tail -n 5 "$work/log" >&2
        skip "Debian's source packages could not be downloaded from $mirror"
    }
}

# build_library NAME OPTION...: builds a library with these options of CMake, and installs it in $work/root. Debian's patches are left
# out: one names a library of Debian's build.
build_library() {
    name=$1
    shift
    {
        dpkg-source --skip-patches -x "$work/sources/$name"_*.dsc "$work/$name" &&
            cmake -S "$work/$name" -B "$work/$name/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
                -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_INSTALL_PREFIX="$libraries" -DCMAKE_INSTALL_LIBDIR=lib "$@" &&
            cmake --build "$work/$name/build" --parallel "$(nproc)" &&
            DESTDIR=$work/root cmake --install "$work/$name/build"
    } >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        printf '%s could not be compiled for %s\n' "$name" "$target" >&2
        exit 1
    }
}

# keep_libraries: moves what build_library installed to $libraries.
keep_libraries() {
    mkdir -p "$(dirname "$libraries")"
    rm -rf --one-file-system "$libraries"
    mv -T "$work/root$libraries" "$libraries"
}
