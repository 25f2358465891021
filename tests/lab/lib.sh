# SPDX-License-Identifier: GPL-2.0-only
# What the lab's scripts share: where things are kept, and which image belongs to a kernel name.
# Sourced, not run.
# shellcheck shell=bash disable=SC2034

lab_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repo_dir=$(cd -- "$lab_dir/../.." && pwd -P)
lab_cache=${SCX_BALLAST_LAB_CACHE:-${HOME:-/root}/.cache/scx_ballast-lab}

# The tables of machines, in the order in which a name is looked up.
lab_machines=("$lab_dir/machines" "$lab_dir/oracle-machines")

# Pinned tools.
virtiofsd_version=1.14.0

# Kernel names, in the order in which `make lab` should use them.
lab_kernels=(6.12 7.3 debian-6.18 debian-7.3)

say() { printf 'lab: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 2
}

# known_kernel NAME: is it one of the lab's names?
known_kernel() {
    local k
    for k in "${lab_kernels[@]}"; do
        [[ $k == "$1" ]] && return 0
    done
    return 1
}

# kernel_image NAME: print the path of its image; fail when there is none yet.
kernel_image() {
    local dir
    case $1 in
    debian-*)
        [[ -e $lab_cache/kernels/$1/vmlinuz ]] && printf '%s\n' "$lab_cache/kernels/$1/vmlinuz"
        return
        ;;
    esac
    for dir in "${SCX_BALLAST_KERNELS:-$repo_dir/../shared/kernels}" "$lab_cache/kernels"; do
        if [[ -e $dir/bzImage-$1 ]]; then
            (cd -- "$dir" && printf '%s/bzImage-%s\n' "$(pwd -P)" "$1")
            return 0
        fi
    done
    return 1
}

# kernel_single NAME: must it run on one emulation thread? Debian's kernels patch their own code (jump
# labels), which multi-threaded emulation does not survive reliably.
kernel_single() { [[ $1 == debian-* ]]; }
