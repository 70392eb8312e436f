#!/bin/sh
# tile_machine.sh [COMMAND...]: boots an emulated processor with AMX tiles and runs the tests of the reduced precisions in it.
#
# For machines whose processor has none: there the tests interpret AMX's instructions (tests/tile_interpreter.h), while here
# the kernel gives permission for tiles and saves them, and the library finds them by itself. Each COMMAND is a line for the
# guest's shell, whose PATH has the tests and examples of the build that it names; by default the tests of tiles and of
# the bits of products are run, which takes a quarter of an hour or more. Their output is printed as it comes. --build DIR: the
# build that they are taken from (default: build).
#
# The machine is Bochs of Debian 13, compiled once, and the kernel Debian 13's: packages, downloaded by apt without being
# installed, are kept in $XDG_CACHE_HOME/tapehead/tile-machine (--fresh makes all anew). The mirror is that of this machine's
# apt; DEBIAN_MIRROR in the environment goes before it. Exits with 77, saying why, where something cannot be downloaded.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
build=$here/build
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/tile-machine
longest=3600 # seconds that the machine may run: guards against hangs only

. "$here/scripts/help.sh"
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
skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
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
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(COMPONENT) $(SITE)' 2>/dev/null |
        awk '$1 == "main" && $2 !~ /security/ { print $2; exit }')}
    [ -n "$mirror" ] || skip "apt knows no Debian mirror here; DEBIAN_MIRROR can name one"
    for kind in deb deb-src; do
        echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main"
    done
}
# An apt of its own, that touches nothing of this machine's.
apt() {
    tool=$1
    shift
    "$tool" -q -o Dir::Etc::sourcelist="$cache/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$cache/lists" \
        -o Dir::Cache="$cache" -o APT::Sandbox::User= "$@"
}
# unpacked PACKAGE: its directory, downloaded where it is not there yet.
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

# edit FILE SCRIPT: with sed; a script that changes nothing is one for another version.
edit() {
    sed "$2" "$1" >"$work/edited"
    ! cmp -s "$1" "$work/edited" || fail "$1 is not as it is in Bochs 3.0: this script wants another look"
    cat "$work/edited" >"$1"
}

# Bochs 3.0 computes tdpbf16ps as Intel's manual has it, but Linux cannot run tiles on it, and some instructions beside it are
# not as the manual says. (In the directory cpu.)
mend() {
    # XFD, by which Linux gives tiles to those that ask for them: two registers, what CPUID says of them, and an exception for
    # every instruction of AMX but tilerelease, which Linux executes when it is idle.
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
    # sttilecfg has VEX.W0, and stores rows and bytes in each other's place; of 16 rows of a tile 8 were saved, when all tiles
    # were 0 only; components in memory that are not to be restored take their place all the same.
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
    # FLT_MIN is no denormal as a difference either.
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

# -- the guest: a kernel, and in memory the commands with what they need --

kernel_package() {
    apt apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-\)/\1/p'
}

# into_guest PROGRAM...: with the libraries that it is linked with.
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
for program in "$build"/tests/test_* "$build"/examples/*; do
    [ ! -f "$program" ] || [ ! -x "$program" ] || {
        name=$(basename "$program")
        case " $* " in
        *"$name"*) into_guest "$program" ;;
        esac
    }
done
# pthread_exit loads this one by itself.
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
[ -n "$kernel" ] || skip "Debian 13's kernel is not to be found"
cp "$(unpacked "$kernel")"/boot/vmlinuz-* "$work/iso/vmlinuz"
cp "$(unpacked isolinux)/usr/lib/ISOLINUX/isolinux.bin" "$(unpacked syslinux-common)/usr/lib/syslinux/modules/bios/ldlinux.c32" \
    "$work/iso/"
# no5lvl: Bochs comes back from system management without the fifth level of page tables.
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
tail -n +1 -f --pid="$machine" "$work/serial" # (the machine ends with an exit status of its own when it is turned off)
wait "$machine" || true
machine=
say "$(($(date +%s) - start)) s"
tr -d '\r' <"$work/serial" >"$work/output"
grep -q '^== end$' "$work/output" || {
    grep -a 'PANIC' "$work/bochs.log" >&2 || true
    fail "the machine stopped before the end"
}
! grep '^== .*: exit status [1-9]' "$work/output" || fail "not all passed"
