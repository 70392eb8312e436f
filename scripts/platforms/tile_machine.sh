#!/bin/sh
# tile_machine.sh [OPTION...] [COMMAND...]: boots an emulated processor with AMX tiles and runs the tests of reduced precision.
#
# On a processor without AMX the tests interpret AMX's instructions (tests/kernels/tile_interpreter.h). In the emulated machine the
# library finds tiles itself, and the kernel permits and saves them. Each COMMAND is a line for the guest's shell, and may name
# tests and examples of the build. The default commands test tiles and the bits of products; they take a quarter of an hour or
# more. Output is printed immediately.
# --build DIR      takes the programs from this build (default: build)
# --fresh          downloads and compiles everything again
#
# The machine is Debian 13's Bochs, compiled once, with Debian 13's kernel. apt downloads the packages without installing them, to
# $XDG_CACHE_HOME/tapehead/tile-machine. It uses the mirror of this machine's apt, or DEBIAN_MIRROR from the environment. Exits
# with 77 and prints the reason if a download fails.
set -eu

here=$(cd "$(dirname "$0")/../.." && pwd)
build=$here/build
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/tile-machine
longest=3600 # seconds for the machine: only a guard against hangs

. "$here/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --build)
        need_value "$@"
        build=$2
        shift
        ;;
    --fresh) rm -rf --one-file-system "$cache" ;;
    -*) refuse "unknown option $1" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- test_tile_model test_tile_interpreter test_tiles test_precision test_precision_bits

say() {
    printf '== tile machine: %s\n' "$*"
}
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

for command; do
    for word in $command; do
        case $word in
        test_*) [ -x "$build/tests/$word" ] || fail "$build/tests has no $word: build the tests first, or name another --build" ;;
        esac
    done
done

"$here/scripts/setup.sh" tiles
mkdir -p "$cache/lists/partial" "$cache/archives/partial"
work=$(mktemp -d "$cache/work.XXXXXX")
machine=
clean_up() {
    [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# -- packages of Debian 13 --

sources() {
    find_mirror
    for kind in deb deb-src; do
        echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main"
    done
}
# apt TOOL OPTION...: runs a tool of apt with separate lists and caches, so that this machine's apt does not change.
apt() {
    tool=$1
    shift
    "$tool" -q -o Dir::Etc::sourcelist="$cache/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$cache/lists" \
        -o Dir::Cache="$cache" -o APT::Sandbox::User= "$@"
}
# unpacked PACKAGE: prints its directory; downloads the package first if needed.
unpacked() {
    if [ ! -e "$cache/$1" ]; then
        (cd "$work" && apt apt-get download "$1" >"$work/log" 2>&1 && dpkg-deb -x "$1"_*.deb "$work/$1" && rm "$1"_*.deb) || {
            tail -n 5 "$work/log" >&2
            skip "Debian 13's package $1 could not be downloaded"
        }
        mv "$work/$1" "$cache/$1"
    fi
    printf '%s\n' "$cache/$1"
}

if [ ! -e "$cache/sources.list" ]; then
    sources >"$work/sources.list"
    mv "$work/sources.list" "$cache/sources.list"
    apt apt-get update >"$work/log" 2>&1 || {
        tail -n 5 "$work/log" >&2
        rm "$cache/sources.list"
        skip "the package lists of Debian 13 could not be downloaded"
    }
fi

# -- Bochs --

# edit FILE SCRIPT: edits the file with sed. Fails if nothing changes: then the file is of another version.
edit() {
    sed "$2" "$1" >"$work/edited"
    ! cmp -s "$1" "$work/edited" || fail "$1 differs from Bochs 3.0: this script must be adapted"
    cat "$work/edited" >"$1"
}

# Corrects Bochs 3.0, in the directory cpu. It computes tdpbf16ps as Intel's manual says. But Linux cannot use tiles on it, and some
# other instructions differ from the manual.
mend() {
    # XFD: with it Linux gives tiles to the processes that request them. Adds two registers, their bits of CPUID, and an exception
    # for all instructions of AMX except tilerelease, which Linux executes when it is idle.
    edit cpu.h 's/^  Bit64u ia32_xss;/&\
  Bit64u ia32_xfd, ia32_xfd_err;/'
    edit init.cc 's/^  BX_CPU_THIS_PTR msr\.ia32_xss = 0;/&\
  BX_CPU_THIS_PTR msr.ia32_xfd = BX_CPU_THIS_PTR msr.ia32_xfd_err = 0;/'
    edit msr.cc 's/^    if (! msr_desc\[index\]) return handle_unknown_rdmsr(/    if (index == BX_MSR_IA32_XFD || index == BX_MSR_IA32_XFD_ERROR) {\
      *msr = index == BX_MSR_IA32_XFD ? BX_CPU_THIS_PTR msr.ia32_xfd : BX_CPU_THIS_PTR msr.ia32_xfd_err;\
      return true;\
    }\
&/'
    edit msr.cc 's/^    if (! msr_desc\[index\]) return handle_unknown_wrmsr(/    if (index == BX_MSR_IA32_XFD || index == BX_MSR_IA32_XFD_ERROR) {\
      (index == BX_MSR_IA32_XFD ? BX_CPU_THIS_PTR msr.ia32_xfd : BX_CPU_THIS_PTR msr.ia32_xfd_err) = val_64;\
      handleAvxModeChange();\
      return true;\
    }\
&/'
    edit cpuid.cc 's/^    \/\/ EAX\[4\] - support for XFD/&\
    const Bit32u xfd = is_cpu_extension_supported(BX_ISA_AMX) << 4;/
        s/^      leaf->eax |= (1<<1) | (1<<2);/      leaf->eax |= (1<<1) | (1<<2) | xfd;/
        s/^      leaf->ecx = (cpu->ia32_xss_suppmask & (1 << subfunction)) != 0;/&\
      if (subfunction == xcr0_t::BX_XCR0_XTILEDATA_BIT) leaf->ecx |= 1 << 2;/'
    edit proc_ctrl.cc '/^      (~BX_CPU_THIS_PTR xcr0.val32 & (BX_XCR0_XTILECFG_MASK | BX_XCR0_XTILEDATA_MASK)) != 0)/i\
      (BX_CPU_THIS_PTR msr.ia32_xfd & BX_XCR0_XTILEDATA_MASK) ||
        /::BxNoAMX(/,/^}/s/^  BX_ASSERT(0);/  if (i->getIaOpcode() == BX_IA_TILERELEASE) {\
    TILERELEASE(i);\
    return;\
  }\
  BX_CPU_THIS_PTR msr.ia32_xfd_err = BX_XCR0_XTILEDATA_MASK;\
  exception(BX_NM_EXCEPTION, 0);/'
    # sttilecfg: the encoding is VEX.W0, and Bochs swaps rows and bytes of a row. xsave: Bochs saves 8 of the 16 rows of a tile, and
    # only if all tiles are 0. xrstor: components that are not requested take space in memory too.
    edit decoder/fetchdecode_opmap_avx.cc '/BX_IA_STTILECFG/s/ATTR_VEX_W1/ATTR_VEX_W0/'
    edit xsave.cc '/::xsave_tilecfg_state(/,/^}/{
        s/\(vmm16u(8+n) .*\)\.rows/\1.bytes_per_row/
        s/\(vmmubyte(48+n) .*\)\.bytes_per_row/\1.rows/
        }
        s/row < BX_TILE_REGISTERS; row++/row < BX_TILE_MAX_ROWS; row++/
        s/tile_use_tracker == 0/tile_use_tracker != 0/
        /^  if (compaction) {/,/^  else {/s/^ *Bit32u feature_mask = (1 << feature);/&\
      if (format \& ~requested_feature_bitmap \& feature_mask)\
        offset += xsave_restore[feature].len;/'
    # The upper half of vcvtne2ps2bf16 comes from the first source.
    edit avx/avx512_bf16.cc 's/\(convert_ne_fp32_to_bfloat16(op1\.vmm32u(n\)))/\1 - DWORD_ELEMENTS(len)))/'
    # A difference of FLT_MIN is not a denormal number.
    edit softfloat3e/s_subMagsF32.c 's/^        if (!expZ && sigDiff) {/        if (!expZ \&\& (sigDiff << shiftDist) < 0x00800000) {/'
}

make_bochs() {
    say "compiling Bochs"
    (cd "$work" && apt apt-get source --download-only --tar-only bochs >"$work/log" 2>&1) || {
        tail -n 5 "$work/log" >&2
        skip "Debian 13's source of Bochs could not be downloaded"
    }
    mkdir "$work/bochs"
    tar -x -C "$work/bochs" --strip-components 1 -f "$work"/bochs_*.orig.tar.*
    (
        cd "$work/bochs"
        (cd cpu && mend) &&
            ./configure CFLAGS=-O2 CXXFLAGS=-O2 --enable-cpu-level=6 --enable-x86-64 --enable-fpu --enable-avx --enable-evex \
            --enable-amx --enable-cet --enable-uintr --enable-protection-keys --enable-memtype --enable-vmx=2 --enable-smp \
            --enable-pci --enable-cdrom --enable-a20-pin --enable-all-optimizations --enable-repeat-speedups --with-nogui \
            --disable-docbook && make -j "$(nproc)"
    ) >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        fail "Bochs could not be compiled"
    }
    mv "$work/bochs/bochs" "$cache/bochs"
    rm -rf "$work/bochs"
}
[ -x "$cache/bochs" ] || make_bochs

# -- the guest: a kernel, and in memory the commands with their programs and libraries --

kernel_package() {
    apt apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-\)/\1/p'
}

# into_guest PROGRAM...: copies programs and their libraries to the guest.
into_guest() {
    for program; do
        cp "$program" "$work/guest/bin/"
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            mkdir -p "$work/guest$(dirname "$library")"
            cp -L "$library" "$work/guest$library"
        done
    done
}

mkdir -p "$work/guest/bin" "$work/guest/proc" "$work/guest/dev" "$work/guest/tmp" "$work/iso"
into_guest "$(command -v sh)" "$(command -v mount)" "$(command -v cat)" "$(command -v grep)" "$(command -v sleep)"
for program in "$build"/tests/test_* "$build"/examples/* "$build"/programs/*; do
    [ ! -f "$program" ] || [ ! -x "$program" ] || {
        name=$(basename "$program")
        case " $* " in
        *"$name"*) into_guest "$program" ;;
        esac
    }
done
# pthread_exit loads this library.
library=$("${CC:-cc}" -print-file-name=libgcc_s.so.1)
[ ! -e "$library" ] || cp -L "$library" "$work/guest/lib64/"
printf '%s\n' "$@" >"$work/guest/commands"
cat >"$work/guest/init" <<'END'
#!/bin/sh
export PATH=/bin LD_LIBRARY_PATH=/lib64
mount -t proc proc /proc
mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1 </dev/null
cd /tmp
grep -m 1 -o 'amx_bf16' /proc/cpuinfo
while read -r command; do
    (eval "$command") >output 2>&1
    status=$?
    cat output
    echo "== $command: exit status $status"
done </commands
echo "== end"
sleep 1
echo o >/proc/sysrq-trigger
sleep 60
END
chmod +x "$work/guest/init"
(cd "$work/guest" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/iso/initrd"
kernel=$(kernel_package)
[ -n "$kernel" ] || skip "apt does not find Debian 13's kernel"
cp "$(unpacked "$kernel")"/boot/vmlinuz-* "$work/iso/vmlinuz"
cp "$(unpacked isolinux)/usr/lib/ISOLINUX/isolinux.bin" "$(unpacked syslinux-common)/usr/lib/syslinux/modules/bios/ldlinux.c32" \
    "$work/iso/"
# no5lvl: after system management mode Bochs has lost the fifth level of page tables.
cat >"$work/iso/isolinux.cfg" <<'END'
DEFAULT linux
LABEL linux
KERNEL vmlinuz
INITRD initrd
APPEND console=ttyS0 loglevel=1 panic=-1 reboot=t no5lvl nokaslr mitigations=off
END
xorriso -as mkisofs -quiet -o "$work/disc" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table \
    "$work/iso" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "the disc that the machine boots could not be written"
}

# -- the machine --

cat >"$work/bochsrc" <<END
cpu: model=sapphire_rapids, count=1, ips=100000000, reset_on_triple_fault=0
clock: sync=none
memory: guest=1024, host=1024
romimage: file=$(unpacked bochsbios)/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=$(unpacked vgabios)/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$work/disc, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
display_library: nogui
log: $work/bochs.log
panic: action=fatal
END
say "booting"
start=$(date +%s)
: >"$work/serial"
timeout --signal=KILL "$longest" "$cache/bochs" -q -f "$work/bochsrc" >/dev/null 2>&1 </dev/null &
machine=$!
tail -n +1 -f --pid="$machine" "$work/serial" # (the exit status after power-off means nothing)
wait "$machine" || true
machine=
say "$(($(date +%s) - start)) s"
tr -d '\r' <"$work/serial" >"$work/output"
grep -q '^== end$' "$work/output" || {
    grep -a 'PANIC' "$work/bochs.log" >&2 || true
    fail "the machine stopped before the end"
}
! grep '^== .*: exit status [1-9]' "$work/output" || fail "some commands failed"
